"""Rows of the official files: products, their attributes and synthetic instructions, instructions written by people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent_r1_envs.files import Row
from agent_r1_envs.webshop.catalogue.data import Product
from agent_r1_envs.webshop.catalogue.prices import parse_pricing

NO_ATTRIBUTES: Final = ("DUMMY_ATTR",)
"""The attributes of a product for which the attributes' file has none."""

_LONGEST_ASIN: Final = 10


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a goal is made of: a text, the attributes that it asks for, and options if people wrote it.

    Attributes:
        text: The instruction without a price.
        attributes: What the product must have.
        options: The option values that it asks for.
        split: The split that it belongs to, empty where its place in the order decides.
    """

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()
    split: str = ""


def is_dropped(asin: object) -> bool:
    """Tell whether the original drops a product with this id on loading."""
    return asin == "nan" or isinstance(asin, str) and len(asin) > _LONGEST_ASIN


def read_product(row: Row, attributes: tuple[str, ...]) -> Product:
    """Read a product.

    Raises:
        DataError: A field is missing or damaged.
    """
    pricing = row.values.get("pricing")
    if pricing and not isinstance(pricing, str):
        row.fail("pricing", "a string or nothing", pricing)
    try:
        prices, tag = parse_pricing(pricing)
    except ValueError as error:
        row.fail("pricing", str(error), pricing)
    bullets = row.get("small_description", "a string or a list of strings")
    images = row.strings("images")
    if not images:
        row.fail("images", "a list with at least one address", images)
    options, option_images = _options(row)
    return Product(
        asin=row.text("asin"),
        name=row.text("name", blank=True),
        description=row.text("full_description", blank=True),
        bullets=(bullets,) if isinstance(bullets, str) else tuple(row.strings("small_description")),
        category=row.text("category", blank=True),
        query=row.text("query", blank=True).lower().strip(),
        product_category=row.text("product_category", blank=True),
        attributes=attributes,
        prices=prices,
        price_tag=tag,
        options=options,
        image=images[0],
        option_images=option_images,
    )


def document(product: Product) -> str:
    """Return the text under which a product is found: of its features only the first, and no attributes."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    first = product.bullets[0] if product.bullets else ""
    return " ".join((product.name, product.description, first, options)).lower()


def read_attributes(entry: Row) -> tuple[str, ...]:
    """Read the attributes of a product; an entry without any is like none, an empty list is not."""
    return tuple(entry.strings("attributes")) if "attributes" in entry.values else NO_ATTRIBUTES


def read_synthetic(entry: Row) -> Instruction | None:
    """Read the synthetic instruction of a product, None if it has none."""
    if entry.values.get("instruction") is None:
        return None
    attributes = entry.strings("instruction_attributes")
    if not attributes:
        entry.fail("instruction_attributes", "at least one attribute", attributes)
    return Instruction(entry.text("instruction", blank=True), tuple(attributes), split=entry.optional_text("split"))


def read_human(entry: Row) -> Instruction | None:
    """Read an instruction that a person wrote, None for one without attributes, which makes no goal."""
    attributes = tuple(entry.strings("instruction_attributes"))
    if not attributes:
        return None
    return Instruction(
        text=entry.text("instruction", blank=True).strip("."),
        attributes=attributes,
        options=tuple(entry.strings("instruction_options")),
        split=entry.optional_text("split"),
    )


def _options(row: Row) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    groups = row.values.get("customization_options")
    options: dict[str, tuple[str, ...]] = {}
    images: dict[str, str] = {}
    if not groups:
        return options, images
    if not isinstance(groups, Mapping):
        row.fail("customization_options", "an object", groups)
    for name, choices in groups.items():
        if choices is None:
            continue
        place = f"customization_options.{name}"
        if not isinstance(choices, list):
            row.fail(place, "a list of options or null", choices)
        values = []
        for number, choice in enumerate(choices):
            option = row.nested(f"{place}[{number}]", choice)
            value = option.text("value", blank=True).strip().replace("/", " | ").lower()
            values.append(value)
            image = choice.get("image")
            if isinstance(image, str):
                images[value] = image
        options[name.lower()] = tuple(values)
    return options, images
