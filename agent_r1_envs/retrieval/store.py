"""Saved indexes: a folder of ``.npy`` files and a manifest that names them with their hashes.

Every save writes data files under names of its own and replaces the manifest last, in one step. So a reader sees either
the old index or the new one, whatever happens to the writer or to another one at the same time, and processes that have
the old files open keep them.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from agent_r1_envs.errors import DataError
from agent_r1_envs.retrieval.postings import Postings
from agent_r1_envs.retrieval.texts import SortedWords, StoredPassages, TextTable
from agent_r1_envs.retrieval.words import tokenizer_name

if TYPE_CHECKING:
    from agent_r1_envs.retrieval.okapi import OkapiRetriever

FORMAT = "agent-r1-okapi"
VERSION = 1
MANIFEST = "manifest.json"
_TABLES = ("words", "ids", "titles", "texts")
_ARRAYS = (
    "starts",
    "documents",
    "impacts",
    "numbers",
    *(f"{t}_{part}" for t in _TABLES for part in ("blob", "offsets")),
)


def save_index(index: OkapiRetriever, folder: Path) -> None:
    """Write ``index`` to ``folder`` (made if missing); see :meth:`OkapiRetriever.save`."""
    folder.mkdir(parents=True, exist_ok=True)
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
    token = secrets.token_hex(8)
    files = {name: _write(folder / f"{name}-{token}.npy", array) for name, array in arrays.items()}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "content_hash": index.content_hash,
        "passages": len(index),
        "parameters": index.parameters,
        "tokenizer": tokenizer_name(index.tokenizer),
        "files": files,
    }
    replaced = _files_of_older_index(folder)
    scratch = folder / f"{MANIFEST}.{token}.tmp"
    with scratch.open("w", encoding="utf-8") as file:
        file.write(json.dumps(manifest, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, folder / MANIFEST)
    for name in replaced:
        (folder / name).unlink(missing_ok=True)


def open_index(folder: Path, tokenizer: str, verify: bool) -> tuple[StoredPassages, Postings, dict[str, float], str]:
    """Map a saved index into memory; see :meth:`OkapiRetriever.open`.

    Returns:
        The passages, the postings, the parameters and the content hash.

    Raises:
        DataError: The index is missing, damaged, of another version or of another tokenizer.
    """
    while True:
        manifest = _manifest(folder)
        try:
            return _open(folder, manifest, tokenizer, verify)
        except DataError:
            if _manifest(folder) == manifest:
                raise  # otherwise the index was replaced while its files were being opened


def _open(
    folder: Path, manifest: dict[str, Any], tokenizer: str, verify: bool
) -> tuple[StoredPassages, Postings, dict[str, float], str]:
    if manifest["tokenizer"] != tokenizer:
        raise DataError(
            f"{folder / MANIFEST}: built with the tokenizer {manifest['tokenizer']}, opened with {tokenizer}; "
            "pass the same one as tokenizer="
        )
    arrays = {name: _read(folder, name, manifest["files"].get(name), verify) for name in _ARRAYS}
    words, ids, titles, texts = (TextTable(arrays[f"{t}_blob"], arrays[f"{t}_offsets"]) for t in _TABLES)
    size = manifest["passages"]
    postings = Postings(
        SortedWords(words, arrays["numbers"]), arrays["starts"], arrays["documents"], arrays["impacts"], size
    )
    return StoredPassages(ids, titles, texts), postings, manifest["parameters"], manifest["content_hash"]


def _files_of_older_index(folder: Path) -> set[str]:
    try:
        return {Path(entry["file"]).name for entry in _manifest(folder)["files"].values()}
    except (DataError, TypeError, KeyError):
        return set()


def _write(path: Path, array: npt.NDArray[Any]) -> dict[str, Any]:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path)}


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder}: no saved index here ({MANIFEST} is missing); write one with save()") from None
    except (OSError, ValueError) as error:
        _damaged(path, str(error))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f'{path}: expected the manifest of a saved index (field format: "{FORMAT}")')
    if manifest.get("version") != VERSION:
        raise DataError(f"{path}: field version: expected {VERSION}, got {manifest.get('version')!r}; build it again")
    expected = {"files": dict, "parameters": dict, "passages": int, "tokenizer": str, "content_hash": str}
    for field, kind in expected.items():
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
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError) as error:
        _damaged(path, str(error))
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        _damaged(path, str(error))
    return array


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(path: Path, reason: str) -> NoReturn:
    raise DataError(f"{path}: the saved index is damaged: {reason}; build it again and save()")
