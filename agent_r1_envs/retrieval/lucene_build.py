"""Builds a :class:`~agent_r1_envs.retrieval.lucene.LuceneIndex`, one document at a time."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from agent_r1_envs.retrieval.lucene import K1, B, LuceneIndex, encode_length, inverse_norms
from agent_r1_envs.retrieval.lucene_words import LuceneEnglish

_CHUNK: Final = 1 << 20  # postings sorted at a time, so that memory stays near the size of the result
_MOST: Final = 65_535


class LuceneBuilder:
    """Collects documents; keeps 6 bytes for each different word of a document, and the vocabulary.

    Args:
        analyse: Text to terms; English as Lucene analyses it by default.
    """

    def __init__(self, analyse: Callable[[str], list[str]] | None = None) -> None:
        self._analyse = LuceneEnglish() if analyse is None else analyse
        self._vocabulary: dict[str, int] = {}
        self._terms, self._counts, self._distinct = array("i"), array("H"), array("i")
        self._lengths = bytearray()
        self._names: list[bytes] = []
        self._tokens = 0
        self._filled = 0

    def add(self, text: str, name: str) -> None:
        """Add the next document; its name decides where it stands among equal scores."""
        terms = self._analyse(text)
        counted = Counter(terms)
        vocabulary = self._vocabulary
        for term, count in counted.items():
            self._terms.append(vocabulary.setdefault(term, len(vocabulary)))
            self._counts.append(min(count, _MOST))
        self._distinct.append(len(counted))
        self._names.append(name.encode("utf-8", "surrogatepass"))
        self._lengths.append(encode_length(len(terms)))
        self._tokens += len(terms)
        self._filled += bool(terms)

    def finish(self, *, k1: float = K1, b: float = B) -> LuceneIndex:
        """Return the index of the documents so far."""
        terms = np.frombuffer(self._terms, dtype=np.int32)
        counts = np.frombuffer(self._counts, dtype=np.uint16)
        starts = np.zeros(len(self._vocabulary) + 1, dtype=np.int64)
        np.cumsum(np.bincount(terms, minlength=len(self._vocabulary)), out=starts[1:])
        placed, placed_counts = self._place(terms, counts, starts)
        average = np.float32(self._tokens / self._filled) if self._filled else np.float32(1)
        return LuceneIndex(
            vocabulary=self._vocabulary,
            starts=starts,
            documents=placed,
            counts=placed_counts,
            lengths=np.frombuffer(bytes(self._lengths), dtype=np.uint8),
            inverse_norms=inverse_norms(average, k1=k1, b=b),
            ranks=self._ranks(),
            filled=self._filled,
            analyse=self._analyse,
        )

    def _ranks(self) -> npt.NDArray[np.int32]:
        ranks = np.empty(len(self._names), dtype=np.int32)
        ranks[sorted(range(len(self._names)), key=self._names.__getitem__)] = np.arange(len(self._names))
        return ranks

    def _place(
        self, terms: npt.NDArray[np.int32], counts: npt.NDArray[np.uint16], starts: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16]]:
        """Bring the postings from the order of documents into that of terms."""
        ends = np.cumsum(np.frombuffer(self._distinct, dtype=np.int32), dtype=np.int64)
        documents = np.empty(len(terms), dtype=np.int32)
        placed = np.empty(len(terms), dtype=np.uint16)
        free = starts[:-1].copy()
        for begin in range(0, len(terms), _CHUNK):
            chunk = terms[begin : begin + _CHUNK]
            order = np.argsort(chunk, kind="stable")
            present, first, size = np.unique(chunk[order], return_index=True, return_counts=True)
            target = np.repeat(free[present] - first, size) + np.arange(len(chunk))
            free[present] += size
            documents[target] = np.searchsorted(ends, begin + order, side="right")
            placed[target] = counts[begin : begin + _CHUNK][order]
        return documents, placed
