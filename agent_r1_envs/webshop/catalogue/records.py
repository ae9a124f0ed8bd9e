"""Products and instructions as bytes: JSON lists of their fields in order, which are short and quick to read."""

import json
from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import Any

from agent_r1_envs.webshop.catalogue.data import Product
from agent_r1_envs.webshop.catalogue.rows import Instruction


def encode(values: Sequence[Any]) -> bytes:
    """Write JSON data; lone surrogates, which JSON files can smuggle in, stay as they were."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode(record: bytes) -> Any:
    """Read what :func:`encode` wrote."""
    return json.loads(record.decode("utf-8", "surrogatepass"))


def encode_product(product: Product) -> bytes:
    """Write a product."""
    return encode([getattr(product, field.name) for field in fields(product)])


def decode_product(record: bytes) -> Product:
    """Read a product."""
    (
        asin,
        name,
        description,
        bullets,
        category,
        query,
        product_category,
        attributes,
        prices,
        price_tag,
        options,
        image,
        option_images,
    ) = decode(record)
    return Product(
        asin,
        name,
        description,
        tuple(bullets),
        category,
        query,
        product_category,
        tuple(attributes),
        tuple(prices),
        price_tag,
        {group: tuple(values) for group, values in options.items()},
        image,
        option_images,
    )


def encode_instruction(instruction: Instruction, number: int = 0) -> bytes:
    """Write an instruction, and its number among those of its product."""
    return encode([*astuple(instruction), number])


def decode_instruction(record: bytes) -> tuple[Instruction, int]:
    """Read an instruction and its number."""
    text, attributes, options, split, number = decode(record)
    return Instruction(text, tuple(attributes), tuple(options), split), number
