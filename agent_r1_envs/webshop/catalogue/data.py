"""What WebShop is made of: products, and goals to buy them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Goal", "Product"]


@dataclass(frozen=True, slots=True)
class Product:
    """One product, its fields as the benchmark loads them.

    Attributes:
        asin: Its id, as in the file.
        name: Its title.
        description: The full description; may be empty.
        bullets: The feature list.
        category: The department: beauty, garden, grocery, electronics or fashion in the official data.
        query: The search term under which it was found, lower-cased and stripped.
        product_category: The path of categories, separated by U+203A.
        attributes: The attributes that the reward compares; ``("DUMMY_ATTR",)`` for a product without an entry.
        prices: One price, or the two ends of a range as they were written, in dollars.
        price_tag: What pages show, such as ``"$7.0"`` or ``"$20.0 to $10.0"``.
        options: Values by group, both lower-cased, in their stored order, repeated values included.
        image: Address of the main picture.
        option_images: Address of a picture by option value, for values that have one.
    """

    asin: str
    name: str
    description: str
    bullets: tuple[str, ...]
    category: str
    query: str
    product_category: str
    attributes: tuple[str, ...]
    prices: tuple[float, ...]
    price_tag: str
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    image: str = ""
    option_images: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Goal:
    """One task: what to buy.

    Attributes:
        id: Stable over versions of the code, unique in its catalogue and kind.
        asin: The product that the instruction was written for.
        category: Its department.
        query: Its search term.
        name: Its title.
        product_category: Its path of categories.
        instruction_text: What the shopper reads.
        attributes: The attributes that the purchase must have.
        price_upper: The price must be at most this; 1,000,000 where the instruction names none.
        goal_options: The option values that must be chosen: a tuple of values for goals written by people, a mapping
            from group to value for synthetic ones.
        weight: Its weight when goals are drawn as the original draws them.
    """

    id: str
    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction_text: str
    attributes: tuple[str, ...]
    price_upper: float
    goal_options: tuple[str, ...] | Mapping[str, str]
    weight: float = 1.0
