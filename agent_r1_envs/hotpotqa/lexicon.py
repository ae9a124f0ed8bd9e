"""The closed language of the synthetic encyclopedia: name words, plain words, and which split owns a name.

Every entity has a name of two words, one from each of the two pools of its namespace. The pools are disjoint, so a
word tells what sort of thing it belongs to, and a name's split follows from the positions of its words alone: whatever
the seed, an entity of the training split can never turn up in validation or test.
"""

from typing import Final, Literal

Split = Literal["train", "validation", "test"]
SPLITS: Final[tuple[Split, ...]] = ("train", "validation", "test")

PEOPLE: Final = (
    "Ada Boris Clara David Elena Felix Greta Hugo Irene Jonas Karen Leon Maria Nils Olga Pavel Quinn Rosa Simon Tessa "
    "Ulrich Vera Walter Xenia Yusuf Zelda Amir Bella Cyrus Diana Emil Freya Gavin Helga Ivan Julia Kasper Laura Marco "
    "Nadia",
    "Abbott Barlow Carver Dalton Ellison Fischer Granger Hartley Ibsen Jensen Keller Larkin Morton Nolan Osborne "
    "Parrish Quimby Ramsey Sutton Thorne Underhill Vance Whitlock Yardley Zimmer Ashworth Becker Colby Draper Eastman "
    "Fletcher Goddard Holloway Ingram Jarvis Kendrick Lindgren Mercer Norwood Pemberton",
)
PLACES: Final = (
    "Alder Birch Cedar Dogwood Elm Fern Gorse Hazel Iris Juniper Kelp Laurel Maple Nettle Oak Pine Quince Rowan Spruce "
    "Thistle Willow Yew Aspen Bramble Clover Dahlia Fox Heron Otter Raven Falcon Badger Salmon Marten Linden Poplar "
    "Sorrel Tansy Myrtle Heather",
    "Bay Bend Bluff Bridge Canyon Cape Cliff Cove Creek Dale Delta Falls Field Ford Gap Glen Grove Gulch Heights Hill "
    "Hollow Island Junction Knoll Lagoon Landing Marsh Meadow Mills Mound Narrows Pass Point Pond Prairie Ridge Shore "
    "Spring Summit Valley",
)
WORKS: Final = (
    "Silent Golden Crimson Broken Distant Hidden Frozen Burning Gentle Bitter Velvet Scarlet Wandering Forgotten "
    "Endless Quiet Restless Savage Tender Vivid Weary Wicked Ancient Brave Careless Daring Eager Faithful Gleaming "
    "Humble Idle Jealous Kindly Lonely Mellow Noble Obscure Patient Radiant Secret Timid Uneasy Vanished Wild Young "
    "Azure Ivory Copper Silver Violet Amber Painted Paper Winter Summer Autumn Midnight Electric Sleeping Floating",
    "Anchor Arrow Ballad Beacon Candle Carnival Castle Circus Compass Crown Curtain Dagger Dancer Desert Dream Echo "
    "Empire Engine Feather Fire Flute Garden Ghost Harvest Horizon Journey Kite Lantern Letter Lighthouse Mask Mirror "
    "Monsoon Moon Mountain Oracle Orchard Palace Parade Piano Pilgrim Pirate Portrait Promise Puzzle Queen Rain Riddle "
    "Rose Sailor Shadow Signal Stranger Thunder Tower Train Voyage Whisper Window Wolf",
)
GROUPS: Final = (
    "Atlas Nova Orion Zenith Apex Vertex Cobalt Quartz Onyx Titan Vulcan Hydra Argon Neon Helix Sigma Omega Lambda "
    "Kappa Photon Proton Plasma Quasar Pulsar Comet Meteor Nebula Saturn Jupiter Neptune Mercury Phoenix Griffin "
    "Pegasus Sphinx Cyclone Tempest Tundra Borealis Polar",
    "Brothers Union Works Circle Alliance Guild League Society Syndicate Collective Assembly Partners Division Brigade "
    "Battalion Squadron Cartel Caravan Foundry Factory Workshop Laboratory Studio Parlor Emporium Depot Station "
    "Terminal Harbor Exchange Bureau Council Embassy Theater Quartet Orchestra Ensemble Project Machine Method",
)
NAMESPACES: Final = {"people": PEOPLE, "places": PLACES, "works": WORKS, "groups": GROUPS}

COUNTRIES: Final = tuple(
    "Norland Estovia Caldora Maravia Sundara Veltania Ardenia Brellia Corvia Dravia Elandia Farland".split()
)
ROLES: Final = ("director", "writer", "singer", "merchant")
PRODUCTS: Final = ("boats", "clocks", "bicycles", "radios", "lamps", "tractors", "cameras", "pianos")
YEARS: Final = tuple(str(year) for year in range(1950, 1990))

# A name's residue decides its split: 14 of 20 train, 3 validation, 3 test. Both factors are coprime to 20, so that
# every word of every pool is used in every split and the vocabulary of test is the vocabulary of train.
_FACTORS: Final = (3, 7)
_MODULUS: Final = 20
_FIRST_VALIDATION: Final = 14
_FIRST_TEST: Final = 17


def split_of(first: int, second: int) -> Split:
    """Return the split that owns the name made of the ``first``-th and the ``second``-th word of its pools."""
    residue = (_FACTORS[0] * first + _FACTORS[1] * second) % _MODULUS
    if residue < _FIRST_VALIDATION:
        return "train"
    return "validation" if residue < _FIRST_TEST else "test"


def names(namespace: str, split: Split) -> list[tuple[str, str]]:
    """Return all the names of ``namespace`` that belong to ``split``, as pairs of words in a fixed order."""
    firsts, seconds = (pool.split() for pool in NAMESPACES[namespace])
    return [(a, b) for i, a in enumerate(firsts) for j, b in enumerate(seconds) if split_of(i, j) == split]
