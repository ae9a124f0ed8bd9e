"""Stores: a folder of arrays, which are mapped into memory, and a manifest that says what they are.

The arrays lie in the files as they lie in memory, so opening a store reads nothing but the manifest, and processes that
open the same store share its pages. A store is written into a folder of its own that gets its name in one step at the
end: there is no half-written store under that name, whatever happens to the writer.
"""

import hashlib
import json
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agent_r1_envs.files import sha256
from agent_r1_envs.files.arrays import Facts, Manifest

FORMAT: Final = "agent-r1-webshop"
VERSION: Final = 2
MANIFEST: Final = "manifest.json"

_KIND: Final = Manifest(
    what="store",
    manifest=MANIFEST,
    format=FORMAT,
    version=VERSION,
    fields={
        "dataset": str,
        "products": int,
        "documents": int,
        "labelled": bool,
        "noun_source": str,
        "noun_model": str,
        "skipped": list,
        "content_hash": str,
        "arrays": dict,
    },
    way_out="remove its folder to have it built again",
)

Arrays = Mapping[str, npt.NDArray[Any]]


def write_store(folder: Path, arrays: Arrays, facts: Facts) -> None:
    """Write arrays and facts into a folder.

    Args:
        folder: Where to; a file ``<name>.bin`` that is there already is kept, as the array of bytes of that name.
        arrays: By name.
        facts: JSON data to be kept in the manifest.
    """
    entries = {path.stem: _entry(path, "uint8", [path.stat().st_size]) for path in sorted(folder.glob("*.bin"))}
    for name, array in arrays.items():
        path = folder / f"{name}.bin"
        with path.open("wb") as file:
            file.write(np.ascontiguousarray(array).data)
        entries[name] = _entry(path, array.dtype.name, list(array.shape))
    manifest = {"format": FORMAT, "version": VERSION, **facts, "content_hash": _combine(entries), "arrays": entries}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def open_store(folder: Path, *, verify: bool = False) -> tuple[dict[str, npt.NDArray[Any]], Facts]:
    """Map the arrays of a store into memory.

    Args:
        folder: A folder that :func:`write_store` wrote.
        verify: Whether to read everything and compare the hashes.

    Returns:
        The arrays, read-only, and the manifest.

    Raises:
        DataError: The store is missing, damaged or of another version.
    """
    facts = read_manifest(folder)
    arrays = {}
    for name, entry in facts["arrays"].items():
        path = folder / f"{name}.bin"
        arrays[name] = _map(path, entry)
        if verify and hashlib.sha256(arrays[name].data).hexdigest() != entry["sha256"]:
            _KIND.damaged(path, "its content is not what was written (SHA-256 differs)")
    return arrays, facts


def read_manifest(folder: Path) -> Facts:
    """Return the manifest of a store.

    Raises:
        DataError: There is none, or it is damaged or of another version.
    """
    facts = _KIND.facts(folder)
    if _combine(facts["arrays"]) != facts["content_hash"]:
        _KIND.damaged(folder / MANIFEST, "field arrays: it is not what was written (content_hash differs)")
    return facts


def content_hash(arrays: Arrays) -> str:
    """Return the hash that a store of these arrays has."""
    return _combine(
        {name: _described(array.dtype.name, list(array.shape), _sha(array)) for name, array in arrays.items()}
    )


def _sha(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def _entry(path: Path, dtype: str, shape: list[int]) -> dict[str, Any]:
    return _described(dtype, shape, sha256(path))


def _described(dtype: str, shape: list[int], digest: str) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "sha256": digest}


def _combine(entries: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode("ascii")).hexdigest()


def _map(path: Path, entry: Mapping[str, Any]) -> npt.NDArray[Any]:
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    expected = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    try:
        size = path.stat().st_size
        if size != expected:
            _KIND.damaged(path, f"expected {expected} bytes, found {size}")
        if not size:
            return np.empty(shape, dtype=dtype)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        _KIND.damaged(path, str(error))
    return np.frombuffer(mapped, dtype=dtype).reshape(shape)
