"""Who cites whom, as four flat arrays that can be mapped into memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class CitationGraph:
    """The references of every paper, and the same edges the other way round.

    Attributes:
        reference_starts: int64 of shape ``[papers + 1]``; paper ``i`` cites the slice from ``[i]`` to ``[i + 1]``.
        references: int32 of shape ``[edges]``, in the order of the paper's own list.
        citation_starts: int64 of shape ``[papers + 1]``.
        citations: int32 of shape ``[edges]``, the papers that cite a paper, in the order of the corpus.
    """

    reference_starts: npt.NDArray[np.int64]
    references: npt.NDArray[np.int32]
    citation_starts: npt.NDArray[np.int64]
    citations: npt.NDArray[np.int32]

    def cited_by(self, paper: int) -> npt.NDArray[np.int32]:
        """Return the papers that ``paper`` cites."""
        return self.references[int(self.reference_starts[paper]) : int(self.reference_starts[paper + 1])]

    def citing(self, paper: int) -> npt.NDArray[np.int32]:
        """Return the papers that cite ``paper``."""
        return self.citations[int(self.citation_starts[paper]) : int(self.citation_starts[paper + 1])]

    @property
    def edges(self) -> int:
        """How many references there are."""
        return int(self.reference_starts[-1])


class GraphBuilder:
    """Collects papers and their references one at a time, in little memory, and makes a graph of them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # of every name that was seen, cited papers outside the corpus included
        self._papers = array("i")
        self._positions: dict[int, int] = {}
        self._sources, self._targets = array("i"), array("i")

    def add(self, key: str, references: Iterable[str]) -> bool:
        """Add the next paper; return False, and add nothing, if it is there already."""
        number = self._number(key)
        if number in self._positions:
            return False
        position = len(self._papers)
        self._positions[number] = position
        self._papers.append(number)
        for reference in dict.fromkeys(references):
            if reference != key:
                self._sources.append(position)
                self._targets.append(self._number(reference))
        return True

    def positions(self) -> dict[str, int]:
        """Return the position of every paper, by its name."""
        return {key: self._positions[number] for key, number in self._numbers.items() if number in self._positions}

    def graph(self) -> CitationGraph:
        """Return the graph of the references that lead to a paper of the corpus."""
        papers = len(self._papers)
        where = np.full(len(self._numbers), -1, dtype=np.int32)
        where[np.frombuffer(self._papers, dtype=np.int32)] = np.arange(papers, dtype=np.int32)
        sources = np.frombuffer(self._sources, dtype=np.int32) if self._sources else np.zeros(0, np.int32)
        targets = where[np.frombuffer(self._targets, dtype=np.int32)] if self._targets else np.zeros(0, np.int32)
        inside = targets >= 0
        sources, targets = sources[inside], targets[inside]
        by_target = np.argsort(targets, kind="stable")
        return CitationGraph(_starts(sources, papers), targets, _starts(targets, papers), sources[by_target])

    def _number(self, key: str) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _starts(owners: npt.NDArray[np.int32], papers: int) -> npt.NDArray[np.int64]:
    starts = np.zeros(papers + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=papers), out=starts[1:])
    return starts
