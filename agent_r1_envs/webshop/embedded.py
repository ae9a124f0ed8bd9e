"""The embedded catalogue: a few thousand synthetic products, made when first used and shared by the process."""

from pathlib import Path
from typing import Any

import numpy.typing as npt

from agent_r1_envs.webshop.catalogue.files import ByAsin
from agent_r1_envs.webshop.catalogue.store import Facts
from agent_r1_envs.webshop.generator.generator import PANEL, Item, generate
from agent_r1_envs.webshop.store_fill import Rows


def embedded_store() -> tuple[dict[str, npt.NDArray[Any]], Facts]:
    """Build the embedded catalogue's store in memory."""
    from agent_r1_envs.webshop.catalogue.opening import build_in_memory  # which imports this module

    products, seed = PANEL
    return build_in_memory(rows_of(generate(products, seed=seed), dataset="synthetic"))


def rows_of(items: list[Item], *, dataset: str) -> Rows:
    """Return generated products as what a store is built from."""
    return Rows(
        Path("(generated)"),
        enumerate(item.row for item in items),
        ByAsin(None, {item.asin: item.attributes for item in items}),
        ByAsin(None, {item.asin: item.human for item in items}),
        ByAsin(None, {item.asin: item.nouns for item in items}),
        dataset,
    )
