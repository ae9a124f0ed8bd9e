"""Turns products and instructions into the arrays of a store, one product at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from agent_r1_envs.retrieval.lucene import LuceneIndex
from agent_r1_envs.retrieval.lucene_build import LuceneBuilder
from agent_r1_envs.retrieval.texts import SortedWords, TextTable
from agent_r1_envs.webshop.catalogue.data import Product
from agent_r1_envs.webshop.catalogue.goals import combinations, shuffled, synthetic_weights
from agent_r1_envs.webshop.catalogue.records import encode, encode_instruction, encode_product
from agent_r1_envs.webshop.catalogue.rows import Instruction, document
from agent_r1_envs.webshop.catalogue.store import Facts

Tagger = Callable[[Iterable[str]], Iterator[tuple[str, ...]]]

_BATCH: Final = 1024


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
