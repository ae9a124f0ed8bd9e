"""Small WebShop catalogues in the official formats."""

import json
from pathlib import Path
from typing import Any

from agent_r1_envs.webshop.generator.generator import generate


def product(asin: str = "B000000001", **changes: Any) -> dict[str, Any]:
    """Return the row of a product."""
    row = {
        "asin": asin,
        "name": f"Acme Lamp {asin}",
        "full_description": "A lamp.",
        "small_description": ["Bright.", "Small."],
        "pricing": "$12.99",
        "images": [f"https://shop.invalid/{asin}.png"],
        "category": "garden",
        "query": "Table Lamps ",
        "product_category": "Home › Lamps",
        "customization_options": {"Size": [{"value": "A/B ", "image": None}, {"value": "Small", "image": "s.png"}]},
    }
    return {name: value for name, value in (row | changes).items() if value is not ...}


def write(
    folder: Path, products: list[Any], attributes: dict[str, Any] | None = None, human: dict[str, Any] | None = None
) -> str:
    """Write the files of a catalogue and return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in (("products", products), ("attributes", attributes), ("human", human)):
        if values is not None:
            (folder / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    return str(folder)


def write_generated(folder: Path, products: int) -> str:
    """Write the first products of the generator and return their folder."""
    items = generate(products, seed=0)
    return write(
        folder,
        [item.row for item in items],
        {item.asin: item.attributes for item in items},
        {item.asin: item.human for item in items},
    )
