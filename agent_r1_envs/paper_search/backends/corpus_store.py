"""Saved corpora: the folder of a lexical index, and beside it the citation graph as a folder of arrays.

See :mod:`agent_r1_envs.files.arrays`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from agent_r1_envs.files.arrays import ArrayFolder, Facts
from agent_r1_envs.paper_search.backends.citation_graph import CitationGraph
from agent_r1_envs.retrieval import OkapiRetriever
from agent_r1_envs.retrieval.texts import StoredPassages, TextTable

if TYPE_CHECKING:
    from agent_r1_envs.paper_search.backends.corpus import Corpus, Positions

_TEXTS: Final = "texts"
_FOLDER: Final = ArrayFolder(
    what="corpus",
    manifest="corpus.json",
    format="agent-r1-papers",
    version=1,
    fields={"papers": int, "content_hash": str},
    arrays=("reference_starts", "references", "citation_starts", "citations", "dates", "order"),
)


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
