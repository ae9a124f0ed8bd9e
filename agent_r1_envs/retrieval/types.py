"""What a retriever takes and gives: passages, hits and the protocol that every back end follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable text.

    Attributes:
        id: Stable name of the passage within its corpus.
        title: Title of the page it comes from; may be empty.
        text: The text itself.
    """

    id: str
    title: str
    text: str

    @property
    def document(self) -> str:
        """What a lexical index sees of the passage: its title, a line break and its text."""
        return f"{self.title}\n{self.text}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage and the score that the retriever gave it (higher is better; scales differ between back ends)."""

    passage: Passage
    score: float


@runtime_checkable
class Retriever(Protocol):
    """Anything that finds passages for a query.

    Implementations return at most ``k`` hits, best first, and fewer (or none) when fewer passages match. They are
    deterministic: the same query gives the same hits in the same order.
    """

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best ``k`` passages for one query, best first."""
        ...

    def search_batch(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of every query, in the order of ``queries``."""
        ...


def check_k(k: int) -> int:
    """Return ``k`` when it is a positive integer.

    Raises:
        ValueError: ``k`` is not an integer of at least 1.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}")
    return k
