"""A local literature: papers, a lexical index over them, and their citation graph.

Saved, it is the folder of the index, and beside it the citation graph as a folder of arrays
(:mod:`agent_r1_envs.files.arrays`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from agent_r1_envs.files import expand
from agent_r1_envs.files.arrays import ArrayFolder, Facts
from agent_r1_envs.paper_search.backends.citation_graph import CitationGraph, GraphBuilder
from agent_r1_envs.paper_search.backends.protocol import Expand, Found, Limits, Lookup
from agent_r1_envs.paper_search.papers.data import Paper, PaperRecord
from agent_r1_envs.paper_search.papers.identity import earliest, last_allowed, paper_key
from agent_r1_envs.retrieval import OkapiRetriever, Passage
from agent_r1_envs.retrieval.texts import StoredPassages, TextTable

_TEXTS: Final = "texts"

_FOLDER: Final = ArrayFolder(
    what="saved corpus",
    manifest="corpus.json",
    format="agent-r1-papers",
    version=1,
    fields={"papers": int, "content_hash": str},
    arrays=("reference_starts", "references", "citation_starts", "citations", "dates", "order"),
)


class Positions(Protocol):
    """From the name of a paper to its position: a ``dict``, or the sorted names of a saved corpus."""

    def get(self, key: str, /) -> int | None:
        """Return the position, or None."""
        ...


class Corpus:
    """Papers that can be searched by words and along citations; immutable.

    Make one with :meth:`of`, or map a saved one into memory with :meth:`open`.

    Attributes:
        index: BM25 over title and abstract.
        graph: The citations.
        dates: int32 of shape ``[papers]``: ``YYYYMMDD``, unknown parts 0.
    """

    def __init__(
        self,
        index: OkapiRetriever,
        graph: CitationGraph,
        dates: npt.NDArray[np.int32],
        positions: Positions,
    ) -> None:
        self.index, self.graph, self.dates, self._positions = index, graph, dates, positions

    @classmethod
    def of(cls, records: Iterable[PaperRecord]) -> Corpus:
        """Index papers; of two with one name the first counts.

        Raises:
            ValueError: If no paper holds a word.
        """
        builder, dates = GraphBuilder(), []

        def passages() -> Iterator[Passage]:
            for record in records:
                if builder.add(record.paper.id, record.references):
                    dates.append(earliest(record.paper.date))
                    yield Passage(record.paper.id, record.paper.title, record.paper.abstract)

        index = OkapiRetriever(passages())
        return cls(index, builder.graph(), np.array(dates, dtype=np.int32), builder.positions())

    def save(self, folder: str | Path) -> None:
        """Write the corpus to a folder that :meth:`open` maps into memory; an older one there is replaced."""
        save_corpus(self, expand(folder))

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = True) -> Corpus:
        """Map a saved corpus into memory, which the processes of a machine share.

        Args:
            folder: What :meth:`save` wrote.
            verify: Compare the hash of every file (about a second per gigabyte); sizes are always compared.

        Raises:
            agent_r1_envs.errors.DataError: If it is missing or damaged.
        """
        return cls(*open_corpus(expand(folder), verify))

    def __len__(self) -> int:
        """Return the number of papers."""
        return len(self.index)

    def __deepcopy__(self, memo: dict[int, Any]) -> Corpus:
        return self

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) of titles, abstracts and ids, in their order."""
        return self.index.content_hash

    def position(self, paper_id: str) -> int | None:
        """Return where a paper is, by any of its names, or None."""
        return self._positions.get(paper_key(paper_id))

    def paper(self, position: int) -> Paper:
        """Return the paper at a position."""
        passage = self.index.passages[position]
        return Paper(passage.id, passage.title, passage.text, _date(int(self.dates[position])))

    def search(self, query: str, k: int, cutoff: str = "") -> list[Paper]:
        """Return the best ``k`` papers for some words, best first, none later than ``cutoff``."""
        allowed = self.dates <= last_allowed(cutoff) if cutoff else None
        return [self.paper(place) for place in self.index.best(query, k, allowed=allowed)[0]]

    def citations(self, position: int, k: int, cutoff: str = "") -> list[int]:
        """Return the first ``k`` papers that cite a paper, in the order of the corpus, none later than ``cutoff``."""
        return self._allowed(self.graph.citing(position), k, cutoff)

    def references(self, position: int, k: int, cutoff: str = "") -> list[int]:
        """Return the first ``k`` papers that a paper cites, in its own order, none later than ``cutoff``."""
        return self._allowed(self.graph.cited_by(position), k, cutoff)

    def _allowed(self, places: npt.NDArray[np.int32], k: int, cutoff: str) -> list[int]:
        chosen = places[self.dates[places] <= last_allowed(cutoff)] if cutoff else places
        return chosen[:k].tolist()


class CorpusBackend:
    """Searches a local corpus.

    Args:
        corpus: The corpus.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def __deepcopy__(self, memo: dict[int, Any]) -> CorpusBackend:
        return self

    def look_up(self, lookups: Sequence[Lookup], limits: Limits, cutoff: str = "") -> list[Found]:
        """Answer the calls of a turn; see :class:`~agent_r1_envs.paper_search.backends.protocol.Backend`."""
        return [Found(tuple(self._answer(lookup, limits, cutoff))) for lookup in lookups]

    def describe(self) -> dict[str, Any]:
        """Return size and hash of the corpus."""
        return {"name": "corpus", "papers": len(self.corpus), "content_hash": self.corpus.content_hash}

    def neighbours(self, paper_id: str, limits: Limits, cutoff: str = "") -> list[str]:
        """Return the names of the papers that an expansion returns, without their texts."""
        return [self.corpus.index.passages[place].id for place in self._around(paper_id, limits, cutoff)]

    def _answer(self, lookup: Lookup, limits: Limits, cutoff: str) -> list[Paper]:
        if isinstance(lookup, Expand):
            return [self.corpus.paper(place) for place in self._around(lookup.paper_id, limits, cutoff)]
        return self.corpus.search(lookup.query, limits.search, cutoff)

    def _around(self, paper_id: str, limits: Limits, cutoff: str) -> list[int]:
        position = self.corpus.position(paper_id)
        if position is None:
            return []
        citing = self.corpus.citations(position, limits.citations, cutoff)
        return list(dict.fromkeys(citing + self.corpus.references(position, limits.references, cutoff)))


def _date(number: int) -> str:
    """Return the date of a number ``YYYYMMDD`` whose unknown parts are zeros."""
    text = f"{number:08d}" if number else ""
    if text.endswith("0000"):
        return text[:4]
    return text[:6] if text.endswith("00") else text


@dataclass(frozen=True, slots=True)
class SortedNames:
    """Names that stay on disk, found by bisection.

    Attributes:
        names: The names of the papers, in the order of the corpus.
        order: int32 of shape ``[papers]``: positions in the order of the names' bytes.
    """

    names: TextTable
    order: npt.NDArray[np.int32]

    def get(self, key: str, /) -> int | None:
        """Return the position of a paper, or None."""
        wanted = key.encode("utf-8", "surrogatepass")
        place = bisect_left(range(len(self.order)), wanted, key=lambda i: self.names.encoded(int(self.order[i])))
        if place == len(self.order) or self.names.encoded(int(self.order[place])) != wanted:
            return None
        return int(self.order[place])


def save_corpus(corpus: Corpus, folder: Path) -> None:
    """Write a corpus; see :meth:`Corpus.save`."""
    corpus.index.save(folder / _TEXTS)
    names = [passage.id.encode("utf-8", "surrogatepass") for passage in corpus.index.passages]
    graph = corpus.graph
    arrays: dict[str, npt.NDArray[Any]] = {
        "reference_starts": graph.reference_starts,
        "references": graph.references,
        "citation_starts": graph.citation_starts,
        "citations": graph.citations,
        "dates": corpus.dates,
        "order": np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int32),
    }
    facts = {"content_hash": corpus.content_hash, "papers": len(corpus), "references": graph.edges}
    _FOLDER.save(folder, arrays, facts)


def open_corpus(folder: Path, verify: bool) -> tuple[OkapiRetriever, CitationGraph, npt.NDArray[np.int32], Positions]:
    """Map a saved corpus into memory; see :meth:`Corpus.open`.

    Raises:
        DataError: If it is missing or damaged.
    """

    def use(facts: Facts) -> tuple[OkapiRetriever, CitationGraph, npt.NDArray[np.int32], Positions]:
        index = OkapiRetriever.open(folder / _TEXTS, verify=verify)
        if len(index) != facts["papers"] or index.content_hash != facts["content_hash"]:
            _FOLDER.damaged(folder / _FOLDER.manifest, f"it belongs to other texts than those in {_TEXTS}")
        arrays = _FOLDER.load(folder, facts, verify=verify)
        order, dates = arrays.pop("order"), arrays.pop("dates")
        assert isinstance(index.passages, StoredPassages)
        return index, CitationGraph(**arrays), dates, SortedNames(index.passages.ids, order)

    return _FOLDER.read(folder, use)


def is_corpus_folder(path: Path) -> bool:
    """Tell whether a saved corpus is there."""
    return (path / _FOLDER.manifest).is_file()
