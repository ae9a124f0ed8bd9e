"""The catalogue that envs share: products, search, nouns, hidden prices and goals, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agent_r1_envs.retrieval.lucene import LuceneIndex
from agent_r1_envs.retrieval.lucene_words import LuceneEnglish
from agent_r1_envs.webshop.catalogue.build import words_of
from agent_r1_envs.webshop.catalogue.data import Goal, Product
from agent_r1_envs.webshop.catalogue.goals import KINDS, GoalKind, GoalList, human_goal, synthetic_goal
from agent_r1_envs.webshop.catalogue.prices import draw_cap, draw_prices
from agent_r1_envs.webshop.catalogue.records import decode, decode_instruction, decode_product

RESULTS: Final = 50
"""How many products a search finds at most."""

_REMEMBERED: Final = 1024
_Arrays = dict[str, npt.NDArray[Any]]


class Catalogue:
    """An opened store, under one seed.

    Products have positions, from 0 in the order of the file. Nothing in a catalogue changes; it remembers the last
    products that were read.

    Args:
        arrays: The arrays of the store.
        facts: Its manifest.
        seed: Decides hidden prices and price caps, and nothing else; see
            :mod:`~agent_r1_envs.webshop.catalogue.prices`.

    Attributes:
        seed: The seed.
        dataset: ``"webshop"``, or ``"synthetic"`` for the embedded catalogue.
        content_hash: SHA-256 in hex of everything in the store.
        noun_source: Where the nouns come from: ``"spacy"``, ``"fallback"`` or ``"given"``.
        skipped: What was wrong with each row that was left out, in the skipping mode.
    """

    def __init__(self, arrays: _Arrays, facts: Mapping[str, Any], seed: int) -> None:
        self.seed = seed
        self.dataset: str = facts["dataset"]
        self.content_hash: str = facts["content_hash"]
        self.noun_source: str = facts["noun_source"]
        self.noun_model: str = facts["noun_model"]
        self.skipped: tuple[str, ...] = tuple(facts["skipped"])
        self._arrays = arrays
        self._size: int = facts["products"]
        self._labelled: bool = facts["labelled"]  # whether instructions name their splits
        self._products: dict[int, Product] = {}
        self._goals: dict[str, GoalList] = {}
        self._index = _index(arrays, facts["documents"])
        self._asins, self._categories, self._queries = (
            words_of(arrays, name) for name in ("asins", "categories", "queries")
        )

    def __len__(self) -> int:
        """Return the number of products."""
        return self._size

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} products, dataset={self.dataset!r}, seed={self.seed})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Catalogue:
        return self  # nothing in it changes

    # Products

    def product(self, key: int | str) -> Product:
        """Return the product at a position, or with an asin.

        Raises:
            IndexError: There is no such position.
            KeyError: There is no such asin.
        """
        position = self.position_of(key) if isinstance(key, str) else key
        product = self._products.get(position)
        if product is None:
            if not 0 <= position < self._size:
                raise IndexError(f"products have positions 0 to {self._size - 1}, got {position}")
            product = decode_product(self._record("products", position))
            if len(self._products) >= _REMEMBERED:
                self._products.pop(next(iter(self._products)), None)
            self._products[position] = product
        return product

    def position_of(self, asin: str) -> int:
        """Return the position of a product.

        Raises:
            KeyError: There is no product with this asin.
        """
        position = self._asins.get(asin)
        if position is None:
            raise KeyError(f"no product {asin!r} in {self!r}")
        return position

    def hidden_price(self, position: int) -> float:
        """Return what a product really costs: the price that the reward tests."""
        return float(self._hidden[0][position])

    def nouns(self, position: int) -> tuple[str, ...]:
        """Return the nouns of a title, repetitions kept."""
        return tuple(decode(self._record("nouns", position)))

    # Search

    def search(self, words: Sequence[str]) -> list[int]:
        """Return the positions of the best :data:`RESULTS` products for the words of a query, best first."""
        return self._index.search(" ".join(words), RESULTS).tolist()

    def terms(self, words: Sequence[str]) -> list[str]:
        """Return the terms that are looked up for the words of a query."""
        return self._index.analyse(" ".join(words))

    def by_category(self, category: str) -> list[int]:
        """Return the positions of all products of a category, in order."""
        return self._listed("categories", self._categories.get(category))

    def by_query(self, query: str) -> list[int]:
        """Return the positions of all products that were found under a search term, in order."""
        return self._listed("queries", self._queries.get(query))

    # Goals

    def goals(self, kind: GoalKind = "human") -> GoalList:
        """Return the goals of a kind, in the original's order.

        Raises:
            ValueError: There is no such kind.
        """
        if kind not in KINDS:
            raise ValueError(f"goals must be one of {', '.join(KINDS)}; got {kind!r}")
        if kind not in self._goals:
            self._goals[kind] = self._human_goals() if kind == "human" else self._synthetic_goals()
        return self._goals[kind]

    def protocol(self) -> dict[str, Any]:
        """Return what decides results, as JSON data."""
        nouns = f"{self.noun_source}: {self.noun_model}" if self.noun_model else self.noun_source
        return {
            "dataset": self.dataset,
            "products": len(self),
            "skipped_products": len(self.skipped),
            "catalogue_hash": self.content_hash,
            "catalogue_seed": self.seed,
            "nouns": nouns,
        }

    def _human_goals(self) -> GoalList:
        products = self._arrays["human_products"]
        caps = self._caps("human")

        def make(source: int, _: int) -> Goal:
            instruction, number = decode_instruction(self._record("human", source))
            return human_goal(self.product(int(products[source])), instruction, number, caps[source])

        def find(id: str) -> int | None:
            for source in self._sources_of("human", id):
                if make(source, 0).id == id:
                    return source
            return None

        ends, weights = np.arange(1, len(products) + 1), np.ones(len(products))
        return GoalList(self._arrays["human_order"], ends, weights, make, find, self._labels("human"))

    def _synthetic_goals(self) -> GoalList:
        products, weights = self._arrays["synthetic_products"], self._arrays["synthetic_weights"]
        caps = self._caps("synthetic")

        def make(source: int, number: int) -> Goal:
            instruction, _ = decode_instruction(self._record("synthetic", source))
            product = self.product(int(products[source]))
            return synthetic_goal(product, instruction, number, caps[source], float(weights[source]))

        order, ends = self._arrays["synthetic_order"], self._arrays["synthetic_ends"]

        def find(id: str) -> int | None:
            number = id.rpartition("-")[2]
            for source in self._sources_of("synthetic", id):
                begin = int(ends[source - 1]) if source else 0
                if number.isdecimal() and int(number) < ends[source] - begin and make(source, int(number)).id == id:
                    return begin + int(number)
            return None

        return GoalList(order, ends, weights, make, find, self._labels("synthetic"))

    def _sources_of(self, kind: GoalKind, id: str) -> range:
        """Return the sources of goals of the product that an id ``<kind>-<asin>-<number>`` names."""
        position = self._asins.get(id.partition("-")[2].rpartition("-")[0])
        products = self._arrays[f"{kind}_products"]
        if position is None:
            return range(0)
        return range(*(int(np.searchsorted(products, position, side=side)) for side in ("left", "right")))

    def _labels(self, kind: GoalKind) -> list[str] | None:
        if not self._labelled:
            return None
        places = range(len(self._arrays[f"{kind}_products"]))
        return [decode_instruction(self._record(kind, place))[0].split for place in places]

    def _caps(self, kind: GoalKind) -> list[float]:
        """The price cap of every source, drawn after the hidden prices as in the original, which has one kind only."""
        prices, state = self._hidden
        rng = Random()
        rng.setstate(state)
        return [draw_cap(float(prices[position]), rng) for position in self._arrays[f"{kind}_products"].tolist()]

    @cached_property
    def _hidden(self) -> tuple[npt.NDArray[np.float64], tuple[Any, ...]]:
        rng = Random(self.seed)
        ranges = self._arrays["prices"]
        prices = ranges[:, 0].copy()
        ranged = ~np.isnan(ranges[:, 1])
        prices[ranged] = draw_prices(ranges[ranged].tolist(), rng)
        return prices, rng.getstate()

    # Reading

    def _record(self, table: str, place: int) -> bytes:
        begin, end = self._arrays[f"{table}_offsets"][place : place + 2].tolist()
        return self._arrays[f"{table}_blob"][begin:end].tobytes()

    def _listed(self, column: str, number: int | None) -> list[int]:
        return [] if number is None else np.flatnonzero(self._arrays[f"{column}_column"] == number).tolist()


def _index(arrays: _Arrays, filled: int) -> LuceneIndex:
    return LuceneIndex(
        vocabulary=words_of(arrays, "terms"),
        starts=arrays["postings_starts"],
        documents=arrays["postings_documents"],
        counts=arrays["postings_counts"],
        lengths=arrays["lengths"],
        inverse_norms=arrays["inverse_norms"],
        ranks=arrays["ranks"],
        filled=filled,
        analyse=LuceneEnglish(),
    )
