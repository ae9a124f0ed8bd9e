"""Saved corpora: the folder of a lexical index, and beside it the citation graph as ``.npy`` files with a manifest.

As in :mod:`agent_r1_envs.retrieval.store`, files get names of their own and the manifest is replaced last.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from agent_r1_envs.errors import DataError
from agent_r1_envs.paper_search.backends.citation_graph import CitationGraph
from agent_r1_envs.retrieval import OkapiRetriever
from agent_r1_envs.retrieval.texts import StoredPassages, TextTable

if TYPE_CHECKING:
    from agent_r1_envs.paper_search.backends.corpus import Corpus, Positions

FORMAT: Final = "agent-r1-papers"
VERSION: Final = 1
MANIFEST: Final = "corpus.json"
_TEXTS: Final = "texts"
_ARRAYS: Final = ("reference_starts", "references", "citation_starts", "citations", "dates", "order")


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
    folder.mkdir(parents=True, exist_ok=True)
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
    older = _files(folder)
    token = secrets.token_hex(8)
    files = {name: _write(folder / f"{name}-{token}.npy", array) for name, array in arrays.items()}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "content_hash": corpus.content_hash,
        "papers": len(corpus),
        "references": graph.edges,
        "files": files,
    }
    scratch = folder / f"{MANIFEST}.{token}.tmp"
    scratch.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    os.replace(scratch, folder / MANIFEST)
    for name in older:
        (folder / name).unlink(missing_ok=True)


def open_corpus(folder: Path, verify: bool) -> tuple[OkapiRetriever, CitationGraph, npt.NDArray[np.int32], Positions]:
    """Map a saved corpus into memory; see :meth:`Corpus.open`.

    Raises:
        DataError: If it is missing or damaged.
    """
    manifest = _manifest(folder)
    index = OkapiRetriever.open(folder / _TEXTS, verify=verify)
    if len(index) != manifest["papers"] or index.content_hash != manifest["content_hash"]:
        _damaged(folder / MANIFEST, f"it belongs to other texts than those in {_TEXTS}")
    arrays = {name: _read(folder, name, manifest["files"].get(name), verify) for name in _ARRAYS}
    order, dates = arrays.pop("order"), arrays.pop("dates")
    assert isinstance(index.passages, StoredPassages)
    return index, CitationGraph(**arrays), dates, SortedNames(index.passages.ids, order)


def is_corpus_folder(path: Path) -> bool:
    """Tell whether a saved corpus is there."""
    return (path / MANIFEST).is_file()


def _files(folder: Path) -> list[str]:
    try:
        return [Path(entry["file"]).name for entry in _manifest(folder)["files"].values()]
    except (DataError, TypeError, KeyError):
        return []


def _write(path: Path, array: npt.NDArray[Any]) -> dict[str, Any]:
    # An empty array cannot be mapped, so an unused element is appended to one.
    np.save(path, array if array.size else np.zeros(1, array.dtype), allow_pickle=False)
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path)}


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder}: no saved corpus here ({MANIFEST} is missing); write one with save()") from None
    except (OSError, ValueError) as error:
        _damaged(path, str(error))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise DataError(f'{path}: expected a saved corpus (format "{FORMAT}", version {VERSION}); build it again')
    for field, kind in {"papers": int, "content_hash": str, "files": dict}.items():
        if not isinstance(manifest.get(field), kind):
            _damaged(path, f"field {field}: expected {kind.__name__}, got {manifest.get(field)!r}")
    return manifest


def _read(folder: Path, name: str, entry: Any, verify: bool) -> npt.NDArray[Any]:
    try:
        path, size, digest = folder / entry["file"], entry["bytes"], entry["sha256"]
    except (TypeError, KeyError):
        _damaged(folder / MANIFEST, f"field files.{name}: expected file, bytes and sha256")
    try:
        actual = path.stat().st_size
        if actual != size:
            _damaged(path, f"expected {size} bytes, got {actual}")
        if verify and _sha256(path) != digest:
            _damaged(path, "its content is not what was saved (SHA-256 differs)")
        array: npt.NDArray[Any] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, EOFError) as error:
        _damaged(path, str(error))
    return array


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(path: Path, reason: str) -> NoReturn:
    raise DataError(f"{path}: the saved corpus is damaged: {reason}; build it again and save()")
