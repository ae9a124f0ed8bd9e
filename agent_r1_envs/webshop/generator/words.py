"""The closed language of the synthetic catalogue: kinds of product, their attributes and options, names of brands.

No two attributes of a department, and no two values of an option, count as the same for the original's fuzzy reward;
but for x-large and large, which it cannot tell apart. No value occurs in two groups of a department, and none is the
name of a button.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Department:
    """A department of the shop.

    Attributes:
        path: The first part of its categories.
        types: Shelf by name of a kind of product, in the singular.
        attributes: What its products can have.
        options: Values by group.
        places: Where or when its products are used.
        cost: Typical price in dollars.
    """

    path: str
    types: dict[str, str]
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    places: tuple[str, ...]
    cost: float


_COLOURS: Final = ("red", "blue", "black", "white", "green", "grey", "beige", "navy", "teal", "ivory", "bronze", "plum")

DEPARTMENTS: Final[dict[str, Department]] = {
    "garden": Department(
        "Home & Outdoor",
        {
            "table lamp": "Lighting",
            "floor lamp": "Lighting",
            "wall shelf": "Storage",
            "shoe rack": "Storage",
            "cushion cover": "Textiles",
            "window curtain": "Textiles",
            "garden bench": "Outdoor Living",
            "plant stand": "Outdoor Living",
        },
        (
            "energy saving",
            "solid oak frame",
            "easy assembly",
            "scratch proof",
            "water repellent",
            "folds away flat",
            "hand carved",
            "sun bleach safe",
            "rubber feet",
            "child friendly",
        ),
        {"color": _COLOURS, "size": ("compact", "regular", "extra tall", "double width")},
        ("living room", "bedroom", "hallway", "balcony", "study", "guest room"),
        60.0,
    ),
    "fashion": Department(
        "Clothes & Shoes",
        {
            "rain jacket": "Outerwear",
            "wool coat": "Outerwear",
            "running shoe": "Footwear",
            "ankle boot": "Footwear",
            "linen shirt": "Tops",
            "knit sweater": "Tops",
            "pleated skirt": "Bottoms",
            "cargo trouser": "Bottoms",
        },
        (
            "machine wash cold",
            "organic fibre",
            "long sleeved cut",
            "quick drying",
            "hidden pocket",
            "stretch waist",
            "reflective trim",
            "cushioned sole",
            "iron free",
            "breathable lining",
        ),
        {"color": _COLOURS, "size": ("small", "medium", "large", "x-large")},
        ("daily wear", "office days", "weekend trips", "evening walks", "travel", "sports"),
        45.0,
    ),
    "beauty": Department(
        "Care & Beauty",
        {
            "hand cream": "Skin Care",
            "face serum": "Skin Care",
            "body lotion": "Skin Care",
            "shampoo bar": "Hair Care",
            "hair mask": "Hair Care",
            "bath salt": "Bath",
            "shower gel": "Bath",
            "lip balm": "Make-up",
        },
        (
            "cruelty free",
            "no parabens",
            "vitamin rich",
            "dermatologist approved",
            "plant based formula",
            "long lasting",
            "sensitive skin",
            "alcohol free",
            "recycled packaging",
            "deep moisture",
        ),
        {
            "scent": ("rose", "lavender", "coconut", "citrus", "cedar", "unscented"),
            "volume": ("travel bottle", "family tub", "refill pouch"),
        },
        ("dry skin", "morning care", "night care", "gift sets", "the gym bag", "winter days"),
        14.0,
    ),
    "grocery": Department(
        "Food & Drinks",
        {
            "herbal tea": "Drinks",
            "ground coffee": "Drinks",
            "fruit bar": "Snacks",
            "rice cracker": "Snacks",
            "nut butter": "Spreads",
            "berry jam": "Spreads",
            "lentil soup": "Pantry",
            "pasta sauce": "Pantry",
        },
        (
            "gluten free",
            "no added sugar",
            "certified vegan",
            "slow roasted",
            "stone milled",
            "kosher kitchen",
            "high protein",
            "low sodium",
            "fair trade",
            "shelf stable",
        ),
        {
            "flavor": ("lemon", "mint", "peach", "vanilla", "hazelnut", "ginger", "cherry"),
            "amount": ("single bag", "box of six", "crate of twelve"),
        },
        ("breakfast", "lunch boxes", "long hikes", "busy evenings", "parties", "the office drawer"),
        9.0,
    ),
    "electronics": Department(
        "Devices & Parts",
        {
            "desk speaker": "Audio",
            "ear phone": "Audio",
            "charging cable": "Power",
            "power bank": "Power",
            "web camera": "Video",
            "screen stand": "Video",
            "game pad": "Gaming",
            "mouse mat": "Gaming",
        },
        (
            "fast charging",
            "noise reduction",
            "wireless pairing",
            "braided cord",
            "shock absorbing",
            "plug and play",
            "splash guard",
            "low latency",
            "night vision",
            "ultra slim",
        ),
        {
            "finish": ("black", "white", "silver", "gold", "navy", "graphite"),
            "plug": ("type c", "micro head", "magnetic tip", "barrel pin"),
        },
        ("home offices", "commuting", "gaming nights", "video calls", "road trips", "classrooms"),
        35.0,
    ),
}

BRAND_STARTS: Final = tuple(
    "Alder Brim Cobb Dun Elm Fenn Gorse Hazel Inver Jas Kell Lark Marl Nor Orra Pell Quill Rook Sorrel Tarn Umber Vell "
    "Wend Yar Zeph Birch Crag Dove Ever Flint".split()
)
BRAND_ENDS: Final = tuple(
    "wick ton ley mere dale holt ford bury stead wood gate combe worth field haven ridge brook cliff moor vale shaw "
    "fold den hurst by marsh croft well thorpe garth lock rigg fell sey port rick mont land path lee".split()
)
LINES: Final = tuple("Classic Nova Prime Duo Trail Loft Pure Swift Mono Terra Aero Vista".split())
"""Brands are a start and an end; a product's title also names one of the brand's lines."""
