"""BM25 retrieval with ``rank_bm25``'s scores at the cost of an inverted index.

A saved index is a folder of arrays (:mod:`agent_r1_envs.files.arrays`): postings, vocabulary and passages.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agent_r1_envs.errors import DataError
from agent_r1_envs.files import expand
from agent_r1_envs.files.arrays import ArrayFolder, Facts
from agent_r1_envs.retrieval.postings import Postings, build_postings
from agent_r1_envs.retrieval.texts import SortedWords, StoredPassages, TextTable
from agent_r1_envs.retrieval.types import Hit, Passage, check_k
from agent_r1_envs.retrieval.words import Tokenizer, tokenizer_name, words

_BLOCK = 256  # scores that are looked at together when the best are chosen
_TABLES: Final = ("words", "ids", "titles", "texts")

_FOLDER: Final = ArrayFolder(
    what="saved index",
    manifest="manifest.json",
    format="agent-r1-okapi",
    version=1,
    fields={"parameters": dict, "passages": int, "tokenizer": str, "content_hash": str},
    arrays=(
        "starts",
        "documents",
        "impacts",
        "numbers",
        *(f"{table}_{part}" for table in _TABLES for part in ("blob", "offsets")),
    ),
)


class OkapiRetriever:
    """BM25 (Okapi, ATIRE variant) over a fixed list of passages, scored as ``rank_bm25.BM25Okapi`` scores them.

    A passage is indexed by its title and text. Equal scores come in the order of the passages, and a passage that
    holds no word of the query is never returned. (A score itself may be zero or below: in a small collection a word
    of half of the passages weighs nothing. Such a passage still matches.)

    Args:
        passages: The collection; at least one must hold a word.
        k1: Saturation of term counts, at least 0.
        b: Strength of the length normalisation, 0 to 1.
        epsilon: Share of the average inverse document frequency that replaces a negative one.
        tokenizer: Text to words; see :func:`~agent_r1_envs.retrieval.words.words` for the default.

    Raises:
        ValueError: No passage holds a word, or a parameter is out of its range.
    """

    def __init__(
        self,
        passages: Iterable[Passage],
        *,
        k1: float = 1.5,
        b: float = 0.75,
        epsilon: float = 0.25,
        tokenizer: Tokenizer = words,
    ) -> None:
        if not (0 <= k1 < math.inf and 0 <= b <= 1 and math.isfinite(epsilon)):
            raise ValueError(f"expected k1 >= 0, 0 <= b <= 1 and a finite epsilon, got {k1}, {b}, {epsilon}")
        self.passages: Sequence[Passage] = tuple(passages)
        self.parameters = {"k1": float(k1), "b": float(b), "epsilon": float(epsilon)}
        self.tokenizer = tokenizer
        self._postings = build_postings((tokenizer(p.document) for p in self.passages), **self.parameters)
        self._content_hash: str | None = None

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self.passages)

    def __deepcopy__(self, memo: dict[int, Any]) -> OkapiRetriever:
        return self  # nothing changes it, so a copied env shares it

    def __repr__(self) -> str:
        return f"OkapiRetriever({len(self)} passages, {self.parameters})"

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) of the passages, the parameters and the tokenizer's name; equal for equal indexes."""
        if self._content_hash is None:
            digest = hashlib.sha256()
            digest.update(json.dumps([self.parameters, tokenizer_name(self.tokenizer)], sort_keys=True).encode())
            for passage in self.passages:
                row = json.dumps([passage.id, passage.title, passage.text])
                digest.update(row.encode())
            self._content_hash = digest.hexdigest()
        return self._content_hash

    def scores(self, query: str) -> npt.NDArray[np.float64]:
        """Return the score of every passage for the query, float64 of shape ``[len(self)]``."""
        return self._postings.scores(self.tokenizer(query))

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best ``k`` passages that hold a word of the query, best first.

        Raises:
            ValueError: ``k`` is not an integer of at least 1.
        """
        best, scores = self.best(query, k)
        return [Hit(self.passages[i], score) for i, score in zip(best, scores, strict=True)]

    def best(
        self, query: str, k: int, *, allowed: npt.NDArray[np.bool_] | None = None
    ) -> tuple[list[int], list[float]]:
        """Return positions and scores of the best ``k`` passages that hold a word of the query, best first.

        Args:
            query: The query.
            k: Most passages.
            allowed: Which passages may be returned, bool of shape ``[len(self)]``; None for all of them.

        Raises:
            ValueError: ``k`` is not an integer of at least 1.
        """
        check_k(k)
        terms = self.tokenizer(query)
        scores = self._postings.scores(terms)
        if allowed is not None:
            scores = np.where(allowed, scores, -np.inf)
        best = _best(scores, k)
        if not best.size or scores[best[-1]] <= 0:  # only then can a passage without any query word be among them
            matching = self._postings.matching(terms) & np.isfinite(scores)
            best = _best(np.where(matching, scores, -np.inf), k)
            best = best[matching[best]]
        return best.tolist(), scores[best].tolist()

    def search_batch(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of every query, in the order of ``queries``."""
        return [self.search(query, k) for query in queries]

    def save(self, folder: str | Path) -> None:
        """Write the index to ``folder``, which :meth:`open` maps into memory; an older index there is replaced.

        Readers of the older index keep what they opened, and a run killed half-way leaves the older index whole.
        """
        save_index(self, expand(folder))

    @classmethod
    def open(cls, folder: str | Path, *, tokenizer: Tokenizer = words, verify: bool = True) -> OkapiRetriever:
        """Open a saved index; its arrays and texts stay on disk and are shared by the processes that open it.

        Args:
            folder: What :meth:`save` wrote.
            tokenizer: The tokenizer that the index was built with.
            verify: Compare the hash of every file (about a second per gigabyte); sizes are always compared.

        Raises:
            agent_r1_envs.errors.DataError: There is no index, or it is damaged, of another version or of another
                tokenizer; the message names the file and the way out.
        """
        passages, postings, parameters, content_hash = open_index(expand(folder), tokenizer_name(tokenizer), verify)
        return cls._of(passages, postings, parameters, content_hash, tokenizer)

    @classmethod
    def _of(
        cls,
        passages: Sequence[Passage],
        postings: Postings,
        parameters: dict[str, float],
        content_hash: str,
        tokenizer: Tokenizer,
    ) -> OkapiRetriever:
        self = cls.__new__(cls)
        self.passages, self._postings, self.parameters = passages, postings, parameters
        self._content_hash, self.tokenizer = content_hash, tokenizer
        return self


def _best(scores: npt.NDArray[np.float64], k: int) -> npt.NDArray[np.intp]:
    """Return the positions of the ``k`` largest scores, largest first, equal scores in order of position."""
    blocks = len(scores) // _BLOCK
    if blocks >= k:
        # The k-th largest of the blocks' maxima is reached k times at least, and by few scores in all.
        maxima = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        candidates = np.flatnonzero(scores >= np.partition(maxima, blocks - k)[blocks - k])
    else:
        candidates = np.arange(len(scores))
    if k < len(candidates):
        threshold = np.partition(scores[candidates], len(candidates) - k)[len(candidates) - k]
        candidates = candidates[scores[candidates] >= threshold]
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]


def save_index(index: OkapiRetriever, folder: Path) -> None:
    """Write ``index`` to ``folder`` (made if missing); see :meth:`OkapiRetriever.save`."""
    postings = index._postings
    vocabulary = postings.vocabulary
    ordered = SortedWords.of(vocabulary) if isinstance(vocabulary, dict) else vocabulary
    assert isinstance(ordered, SortedWords)
    arrays: dict[str, npt.NDArray[Any]] = {
        "starts": postings.starts,
        "documents": postings.documents,
        "impacts": postings.impacts,
        "numbers": ordered.numbers,
    }
    tables = {
        "words": ordered.table,
        "ids": TextTable.of([p.id for p in index.passages]),
        "titles": TextTable.of([p.title for p in index.passages]),
        "texts": TextTable.of([p.text for p in index.passages]),
    }
    for name, table in tables.items():
        arrays[f"{name}_blob"], arrays[f"{name}_offsets"] = table.blob, table.offsets
    facts = {
        "content_hash": index.content_hash,
        "passages": len(index),
        "parameters": index.parameters,
        "tokenizer": tokenizer_name(index.tokenizer),
    }
    _FOLDER.save(folder, arrays, facts)


def open_index(folder: Path, tokenizer: str, verify: bool) -> tuple[StoredPassages, Postings, dict[str, float], str]:
    """Map a saved index into memory; see :meth:`OkapiRetriever.open`.

    Returns:
        The passages, the postings, the parameters and the content hash.

    Raises:
        DataError: The index is missing, damaged, of another version or of another tokenizer.
    """

    def use(facts: Facts) -> tuple[StoredPassages, Postings, dict[str, float], str]:
        if facts["tokenizer"] != tokenizer:
            raise DataError(
                f"{folder / _FOLDER.manifest}: built with the tokenizer {facts['tokenizer']}, opened with {tokenizer}; "
                "pass the same one as tokenizer="
            )
        arrays = _FOLDER.load(folder, facts, verify=verify)
        words, ids, titles, texts = (TextTable(arrays[f"{t}_blob"], arrays[f"{t}_offsets"]) for t in _TABLES)
        vocabulary, size = SortedWords(words, arrays["numbers"]), facts["passages"]
        postings = Postings(vocabulary, arrays["starts"], arrays["documents"], arrays["impacts"], size)
        return StoredPassages(ids, titles, texts), postings, facts["parameters"], facts["content_hash"]

    return _FOLDER.read(folder, use)
