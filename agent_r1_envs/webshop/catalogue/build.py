"""Builds a store: the rows of a catalogue, read as the original loads them, become arrays one product at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import numpy.typing as npt

from agent_r1_envs.errors import DataError
from agent_r1_envs.files import Row, found, json_list
from agent_r1_envs.retrieval.lucene import LuceneBuilder, LuceneIndex
from agent_r1_envs.retrieval.texts import SortedWords, TextTable
from agent_r1_envs.webshop.catalogue.data import Product
from agent_r1_envs.webshop.catalogue.files import ByAsin, Sources
from agent_r1_envs.webshop.catalogue.goals import combinations, shuffled, synthetic_weights
from agent_r1_envs.webshop.catalogue.nouns import fallback_nouns, find_tagger, spacy_nouns
from agent_r1_envs.webshop.catalogue.records import encode, encode_instruction, encode_product
from agent_r1_envs.webshop.catalogue.rows import (
    NO_ATTRIBUTES,
    Instruction,
    document,
    is_dropped,
    read_attributes,
    read_human,
    read_product,
    read_synthetic,
)
from agent_r1_envs.webshop.catalogue.store import Facts

Tagger = Callable[[Iterable[str]], Iterator[tuple[str, ...]]]
NounChoice = Literal["auto", "spacy", "fallback"]
_BATCH: Final = 1024


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
    def of(cls, sources: Sources) -> Rows:
        """Return the rows of files; those of products are read on the way."""
        return cls(
            sources.products,
            json_list(sources.products),
            ByAsin(sources.attributes),
            ByAsin(sources.human),
            None if sources.nouns is None else ByAsin(sources.nouns),
        )


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


class StoreBuilder:
    """Collects a catalogue.

    Args:
        products: Where the products' records are written, the bulk of the store.
        tag: Titles to nouns.
    """

    def __init__(self, products: BinaryIO, tag: Tagger) -> None:
        self._products, self._tag = products, tag
        self._ends: list[int] = [0]
        self._positions: dict[str, int] = {}
        self._index = LuceneBuilder()
        self._ranges: list[tuple[float, float]] = []
        self._categories, self._queries = _Names(), _Names()
        self._titles: list[str] = []
        self._labelled = False
        self._nouns = _Blob()
        self._human, self._synthetic = _Blob(), _Blob()
        self._human_products: list[int] = []
        self._synthetic_products: list[int] = []
        self._synthetic_sources: list[tuple[Sequence[str], int]] = []

    def __len__(self) -> int:
        """Return the number of products so far."""
        return len(self._positions)

    def __contains__(self, asin: str) -> bool:
        return asin in self._positions

    def add(
        self,
        product: Product,
        synthetic: Instruction | None = None,
        human: Iterable[tuple[int, Instruction]] = (),
        nouns: Sequence[str] | None = None,
    ) -> None:
        """Add the next product.

        Args:
            product: The product.
            synthetic: Its synthetic instruction.
            human: The numbered instructions that people wrote for it.
            nouns: The nouns of its title, for all products or for none; None to find them.
        """
        position = len(self)
        human = list(human)
        self._labelled |= any(one.split for one in [*(one for _, one in human), *([synthetic] if synthetic else [])])
        self._positions[product.asin] = position
        self._ends.append(self._ends[-1] + self._products.write(encode_product(product)))
        self._index.add(document(product), product.asin)
        self._ranges.append((product.prices[0], product.prices[1] if len(product.prices) > 1 else np.nan))
        self._categories.add(product.category)
        self._queries.add(product.query)
        if nouns is None:
            self._titles.append(product.name)
        else:
            self._nouns.add(encode(nouns))
        if len(self._titles) == _BATCH:
            self._flush_titles()
        if synthetic is not None:
            self._synthetic.add(encode_instruction(synthetic))
            self._synthetic_products.append(position)
            self._synthetic_sources.append((synthetic.attributes, combinations(product.options)))
        for number, instruction in human:
            self._human.add(encode_instruction(instruction, number))
            self._human_products.append(position)

    def finish(self) -> tuple[dict[str, npt.NDArray[Any]], Facts]:
        """Return the arrays, all but the products' records, and the facts."""
        self._flush_titles()
        goals = np.array([goals for _, goals in self._synthetic_sources], dtype=np.int64)
        index = self._index.finish()
        arrays = {
            "products_offsets": np.array(self._ends, dtype=np.int64),
            "prices": np.array(self._ranges, dtype=np.float64).reshape(-1, 2),
            **_words("asins", self._positions),
            **self._categories.arrays("categories"),
            **self._queries.arrays("queries"),
            **self._nouns.arrays("nouns"),
            **self._human.arrays("human"),
            "human_products": np.array(self._human_products, dtype=np.int32),
            "human_order": shuffled(len(self._human_products)),
            **self._synthetic.arrays("synthetic"),
            "synthetic_products": np.array(self._synthetic_products, dtype=np.int32),
            "synthetic_ends": np.cumsum(goals),
            "synthetic_weights": synthetic_weights(self._synthetic_sources),
            "synthetic_order": shuffled(int(goals.sum())),
            **_index_arrays(index),
        }
        return arrays, {"products": len(self), "documents": index.filled, "labelled": self._labelled}

    def _flush_titles(self) -> None:
        for nouns in self._tag(self._titles):
            self._nouns.add(encode(nouns))
        self._titles.clear()


class _Blob:
    """Records in a row."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = [0]

    def add(self, record: bytes) -> None:
        self._bytes += record
        self._ends.append(len(self._bytes))

    def arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        blob = np.frombuffer(bytes(self._bytes), dtype=np.uint8)
        return {f"{name}_blob": blob, f"{name}_offsets": np.array(self._ends, dtype=np.int64)}


class _Names:
    """One of a few names for each product, kept as its number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._column: list[int] = []

    def add(self, name: str) -> None:
        self._column.append(self._numbers.setdefault(name, len(self._numbers)))

    def arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        return {**_words(name, self._numbers), f"{name}_column": np.array(self._column, dtype=np.int32)}


def _words(name: str, vocabulary: dict[str, int]) -> dict[str, npt.NDArray[Any]]:
    ordered = SortedWords.of(vocabulary)
    return {
        f"{name}_blob": ordered.table.blob,
        f"{name}_offsets": ordered.table.offsets,
        f"{name}_numbers": ordered.numbers,
    }


def _index_arrays(index: LuceneIndex) -> dict[str, npt.NDArray[Any]]:
    assert isinstance(index.vocabulary, dict)
    return {
        **_words("terms", index.vocabulary),
        "postings_starts": index.starts,
        "postings_documents": index.documents,
        "postings_counts": index.counts,
        "lengths": index.lengths,
        "ranks": index.ranks,
        "inverse_norms": index.inverse_norms,
    }


def words_of(arrays: dict[str, npt.NDArray[Any]], name: str) -> SortedWords:
    """Return the vocabulary ``name`` of a store."""
    return SortedWords(TextTable(arrays[f"{name}_blob"], arrays[f"{name}_offsets"]), arrays[f"{name}_numbers"])
