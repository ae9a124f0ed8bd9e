"""Reads a catalogue's rows into a store that is being built, as the original loads them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy.typing as npt

from agent_r1_envs.errors import DataError
from agent_r1_envs.files import Row, found, json_list
from agent_r1_envs.webshop.catalogue.build import StoreBuilder, Tagger
from agent_r1_envs.webshop.catalogue.files import ByAsin, Sources
from agent_r1_envs.webshop.catalogue.nouns import fallback_nouns, find_tagger, spacy_nouns
from agent_r1_envs.webshop.catalogue.rows import (
    NO_ATTRIBUTES,
    Instruction,
    is_dropped,
    read_attributes,
    read_human,
    read_product,
    read_synthetic,
)
from agent_r1_envs.webshop.catalogue.store import Facts

NounChoice = Literal["auto", "spacy", "fallback"]


@dataclass(slots=True)
class Rows:
    """What a catalogue is built from.

    Attributes:
        path: What errors call the file of products.
        products: Its numbered rows.
        attributes: The file of attributes.
        human: The file of instructions that people wrote.
        nouns: The nouns of the titles, if they are given.
        dataset: What the catalogue is called.
    """

    path: Path
    products: Iterable[tuple[int, Any]]
    attributes: ByAsin = field(default_factory=lambda: ByAsin(None))
    human: ByAsin = field(default_factory=lambda: ByAsin(None))
    nouns: ByAsin | None = None
    dataset: str = "webshop"

    @classmethod
    def of(cls, sources: Sources) -> "Rows":
        """Return the rows of files; those of products are read on the way."""
        return cls(
            sources.products,
            json_list(sources.products),
            ByAsin(sources.attributes),
            ByAsin(sources.human),
            None if sources.nouns is None else ByAsin(sources.nouns),
        )


def choose_tagger(nouns: NounChoice) -> tuple[Tagger, str, str]:
    """Return what finds nouns, what kind of thing it is, and the name of its model.

    Raises:
        ImportError: ``"spacy"`` was asked for and is not installed; the message has the pip command.
        ValueError: There is no such choice.
    """
    if nouns not in ("auto", "spacy", "fallback"):
        raise ValueError(f"nouns must be auto, spacy, fallback or a file; got {nouns!r}")
    model = None if nouns == "fallback" else find_tagger()
    if model is not None:
        return spacy_nouns(model), "spacy", model
    if nouns == "spacy":
        raise ImportError("nouns='spacy' needs spaCy and an English model: pip install 'agent-r1[spacy]'")
    return fallback_nouns, "fallback", ""


def build_store(
    rows: Rows, products: BinaryIO, *, nouns: NounChoice = "auto", strict: bool = True, limit: int | None = None
) -> tuple[dict[str, npt.NDArray[Any]], Facts]:
    """Build a store.

    Args:
        rows: What from.
        products: Where the products' records are written.
        nouns: How nouns are found if they are not given.
        strict: Whether a damaged product is an error. Otherwise it is left out, and named in the facts.
        limit: How many rows of products to read; None for all.

    Returns:
        The arrays but for the products' records, and the facts.

    Raises:
        DataError: A row is damaged; or there is no product at all.
    """
    tag, source, model = choose_tagger(nouns) if rows.nouns is None else (fallback_nouns, "given", "")
    builder = StoreBuilder(products, tag)
    skipped: list[str] = []
    for number, values in islice(rows.products, limit):
        try:
            _add(builder, rows, number, values)
        except DataError as error:
            if strict:
                raise
            skipped.append(str(error))
    if not len(builder):
        raise DataError(f"{rows.path}: expected products, found none" + (f"; first: {skipped[0]}" if skipped else ""))
    arrays, facts = builder.finish()
    facts |= {"dataset": rows.dataset, "noun_source": source, "noun_model": model, "skipped": skipped}
    return arrays, facts


def _add(builder: StoreBuilder, rows: Rows, number: int, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise DataError(f"{rows.path}, row {number}: expected a JSON object, found {found(values)}")
    row = Row(rows.path, number, values)
    asin = row.text("asin")
    if is_dropped(asin) or asin in builder:
        return
    attributes: tuple[str, ...] = NO_ATTRIBUTES
    synthetic = None
    if asin in rows.attributes:
        entry = rows.attributes.entry(asin)
        attributes, synthetic = read_attributes(entry), read_synthetic(entry)
    human = _human(rows.human.entries(asin))
    given = None if rows.nouns is None else rows.nouns.strings(asin)
    builder.add(read_product(row, attributes), synthetic, human, given)


def _human(entries: list[Row]) -> list[tuple[int, Instruction]]:
    read = ((number, read_human(entry)) for number, entry in enumerate(entries))
    return [(number, instruction) for number, instruction in read if instruction is not None]
