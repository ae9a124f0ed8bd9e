"""BM25 as Lucene computes it: the same terms, the same rounding to single precision, the same order of ties.

Anserini's defaults are ``k1 = 0.9`` and ``b = 0.4``. A query is a bag of words without syntax. The score of a document
is the sum over the query's terms of ``w - w / (1 + tf * n)``: ``w`` is the term's inverse document frequency times its
count in the query, ``tf`` its count in the document, and ``n`` stands for the length of the document, which Lucene
keeps in one byte. Terms are rounded to float32, summed in float64 and rounded again. Equal scores go by the documents'
names, not by their numbers. An index is built one document at a time.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from agent_r1_envs.retrieval.lucene_words import LuceneEnglish
from agent_r1_envs.retrieval.postings import Vocabulary

K1: Final = 0.9
B: Final = 0.4
_FREE: Final = 24  # shorter lengths are their own byte; beyond, four significant bits of the excess are kept
_CHUNK: Final = 1 << 20  # postings sorted at a time, so that memory stays near the size of the result
_MOST: Final = 65_535


@dataclass(frozen=True, slots=True)
class LuceneIndex:
    """An inverted index over ``n`` documents; term ``t`` owns the slice ``starts[t]:starts[t + 1]`` of the postings.

    Attributes:
        vocabulary: Term to number.
        starts: int64 of shape ``[terms + 1]``.
        documents: int32 of shape ``[postings]``, ascending within a term.
        counts: uint16 of shape ``[postings]``; how often the document holds the term.
        lengths: uint8 of shape ``[n]``; the length of each document as :func:`encode_length` writes it.
        inverse_norms: float32 of shape ``[256]``; ``n`` of the formula, by the byte of the length.
        ranks: int32 of shape ``[n]``; place of each document in the order of the names.
        filled: How many documents hold a term at all.
        analyse: Text to terms.
    """

    vocabulary: Vocabulary
    starts: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int32]
    counts: npt.NDArray[np.uint16]
    lengths: npt.NDArray[np.uint8]
    inverse_norms: npt.NDArray[np.float32]
    ranks: npt.NDArray[np.int32]
    filled: int
    analyse: Callable[[str], list[str]]

    @classmethod
    def of(cls, texts: Iterable[str], *, k1: float = K1, b: float = B) -> LuceneIndex:
        """Index texts whose names are in the order of the texts.

        >>> index = LuceneIndex.of(["red shoes", "a blue shoe", "green hats"])
        >>> index.search("shoes for running in blue", 10).tolist()
        [1, 0]
        """
        builder = LuceneBuilder()
        for number, text in enumerate(texts):
            builder.add(text, f"{number:012d}")
        return builder.finish(k1=k1, b=b)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.lengths)

    def search(self, query: str, k: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the best ``k`` documents that hold a term of the query, best first."""
        scores = self.scores(query)
        found = np.flatnonzero(scores)
        values = scores[found]
        if len(found) > k:
            last = np.partition(values, len(values) - k)[len(values) - k]
            found, values = found[values >= last], values[values >= last]
        return found[np.lexsort((self.ranks[found], -values))][:k]

    def scores(self, query: str) -> npt.NDArray[np.float32]:
        """Return the score of every document, float32 of shape ``[n]``; 0 where no term of the query occurs."""
        documents, counts, weights, sizes = [], [], [], []
        for term, times in Counter(self.analyse(query)).items():
            number = self.vocabulary.get(term)
            if number is not None:
                begin, end = self.starts[number : number + 2].tolist()
                documents.append(self.documents[begin:end])
                counts.append(self.counts[begin:end])
                weights.append(np.float32(times) * self._idf(end - begin))
                sizes.append(end - begin)
        if not documents:
            return np.zeros(len(self), dtype=np.float32)
        where = np.concatenate(documents)
        weight = np.repeat(np.array(weights, dtype=np.float32), sizes)
        norm = self.inverse_norms[self.lengths[where]]
        part = weight - weight / (np.float32(1) + np.concatenate(counts).astype(np.float32) * norm)
        return np.bincount(where, weights=part, minlength=len(self)).astype(np.float32)

    def _idf(self, frequency: int) -> np.float32:
        return np.float32(math.log(1 + (self.filled - frequency + 0.5) / (frequency + 0.5)))


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


def encode_length(length: int) -> int:
    """Return the byte in which Lucene keeps a length (``SmallFloat.intToByte4``).

    >>> [decode_length(encode_length(n)) for n in (7, 39, 40, 41, 50, 1000)]
    [7, 39, 40, 40, 50, 984]
    """
    if length < _FREE:
        return length
    rest = length - _FREE
    bits = rest.bit_length()
    return _FREE + (rest if bits < 4 else (rest >> (bits - 4)) & 7 | (bits - 3) << 3)


def decode_length(code: int) -> int:
    """Return the length that a byte stands for: the longest that is no longer than the original."""
    if code < _FREE:
        return code
    mantissa, shift = (code - _FREE) & 7, ((code - _FREE) >> 3) - 1
    return _FREE + (mantissa if shift < 0 else (mantissa | 8) << shift)


def inverse_norms(average: np.float32, *, k1: float, b: float) -> npt.NDArray[np.float32]:
    """Return ``1 / (k1 * (1 - b + b * length / average))`` for the lengths of all bytes, float32 of shape ``[256]``."""
    one, k1_, b_ = np.float32(1), np.float32(k1), np.float32(b)
    lengths = np.array([decode_length(code) for code in range(256)], dtype=np.float32)
    return one / (k1_ * ((one - b_) + b_ * lengths / average))
