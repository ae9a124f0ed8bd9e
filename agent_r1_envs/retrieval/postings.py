"""Inverted index with the statistics of ``rank_bm25.BM25Okapi``.

``rank_bm25`` keeps one dictionary per document and, for every word of a query, asks every document for it. The
numbers behind its scores are few, though: document lengths, document frequencies and an inverse document frequency
with a floor. :class:`_Statistics` lets ``rank_bm25`` itself compute those, but collects (word, document, count)
triples instead of dictionaries; sorting them by word gives posting lists, and a query then costs only the postings of
its own words.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from rank_bm25 import BM25Okapi

_CHUNK = 1 << 20  # triples sorted at a time, so that memory stays near the size of the result


class Vocabulary(Protocol):
    """Words to numbers: a ``dict``, or the sorted table of a saved index."""

    def get(self, word: str, /) -> int | None:
        """Return the number of ``word``, or None when no document holds it."""
        ...


@dataclass(frozen=True, slots=True)
class Postings:
    """An inverted index over ``n`` documents; word ``w`` owns the slice ``starts[w]:starts[w + 1]``.

    Attributes:
        vocabulary: Word to number.
        starts: int64 of shape ``[words + 1]``.
        documents: int32 of shape ``[postings]``, ascending within a word.
        impacts: float64 of shape ``[postings]``; what one occurrence of the word in a query adds to the score.
        size: Number of documents.
    """

    vocabulary: Vocabulary
    starts: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int32]
    impacts: npt.NDArray[np.float64]
    size: int

    def scores(self, query: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return the score of every document, float64 of shape ``[size]``; a repeated word counts again."""
        total = np.zeros(self.size)
        for word, times in self._known(query):
            documents, impacts = self._of(word)
            np.add.at(total, documents, impacts if times == 1 else impacts * times)
        return total

    def matching(self, query: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Return which documents hold at least one word of the query, bool of shape ``[size]``."""
        found = np.zeros(self.size, dtype=np.bool_)
        for word, _ in self._known(query):
            found[self._of(word)[0]] = True
        return found

    def _known(self, query: Iterable[str]) -> list[tuple[int, int]]:
        numbered = ((self.vocabulary.get(word), times) for word, times in Counter(query).items())
        return [(number, times) for number, times in numbered if number is not None]

    def _of(self, word: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        span = slice(int(self.starts[word]), int(self.starts[word + 1]))
        return self.documents[span], self.impacts[span]


class _Statistics(BM25Okapi):
    """``BM25Okapi`` whose per-document dictionaries are replaced by one list of triples."""

    def _initialize(self, corpus: Iterable[list[str]]) -> Mapping[str, int]:
        self.vocabulary: dict[str, int] = {}
        self.words, self.counts, self.distinct = array("i"), array("i"), array("i")
        frequencies: list[int] = []
        for tokens in corpus:
            self.doc_len.append(len(tokens))
            counted = Counter(tokens)
            for word, count in counted.items():
                number = self.vocabulary.setdefault(word, len(frequencies))
                if number == len(frequencies):
                    frequencies.append(0)
                frequencies[number] += 1
                self.words.append(number)
                self.counts.append(count)
            self.distinct.append(len(counted))
        self.corpus_size = len(self.doc_len)
        self.avgdl = sum(self.doc_len) / self.corpus_size
        self.frequencies = frequencies
        return dict(zip(self.vocabulary, frequencies, strict=True))


def build_postings(documents: Iterable[list[str]], *, k1: float, b: float, epsilon: float) -> Postings:
    """Index tokenised documents.

    Args:
        documents: One list of words per document; consumed once.
        k1: Saturation of term counts.
        b: Strength of the length normalisation.
        epsilon: Share of the average inverse document frequency that words of more than half of the documents get.

    Raises:
        ValueError: There is no document, or no document holds a word.
    """
    try:
        statistics = _Statistics(documents, k1=k1, b=b, epsilon=epsilon)
    except ZeroDivisionError:
        raise ValueError("cannot index: there is no passage that holds a word") from None
    lengths = np.array(statistics.doc_len, dtype=np.float64)
    norms = k1 * (1 - b + b * lengths / statistics.avgdl)
    idf = np.fromiter(statistics.idf.values(), dtype=np.float64, count=len(statistics.vocabulary))
    starts = np.zeros(len(idf) + 1, dtype=np.int64)
    np.cumsum(statistics.frequencies, out=starts[1:])

    words = np.frombuffer(statistics.words, dtype=np.int32)
    counts = np.frombuffer(statistics.counts, dtype=np.int32)
    owners = np.repeat(np.arange(len(lengths), dtype=np.int32), np.frombuffer(statistics.distinct, dtype=np.int32))
    placed = np.empty(len(words), dtype=np.int32)
    impacts = np.empty(len(words), dtype=np.float64)
    free = starts[:-1].copy()
    for begin in range(0, len(words), _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        order = np.argsort(words[chunk], kind="stable")
        word, count, owner = words[chunk][order], counts[chunk][order], owners[chunk][order]
        present, first, size = np.unique(word, return_index=True, return_counts=True)
        target = np.repeat(free[present] - first, size) + np.arange(len(word))
        free[present] += size
        placed[target] = owner
        impacts[target] = idf[word] * (count * (k1 + 1) / (count + norms[owner]))
    return Postings(statistics.vocabulary, starts, placed, impacts, len(lengths))
