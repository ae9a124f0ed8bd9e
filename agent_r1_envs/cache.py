"""Read-only data that all envs of a process share: loaded once, by path and content, until :func:`clear_cache`.

The cache is the package's only shared state. What is in it must never be changed.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["clear_cache", "load_once", "make_once"]

T = TypeVar("T")

EDGE_BYTES = 65_536

_lock = threading.RLock()
_values: dict[Hashable, tuple[Hashable, Any]] = {}


def load_once(
    path: str | os.PathLike[str], loader: Callable[[Path], T], *, key: Hashable = None, also: Sequence[Path] = ()
) -> T:
    """Return ``loader(path)``, from the cache as long as the file, or folder of files, is the same.

    A file is taken for the same while its size, its times and its first and last 64 KiB are.

    Args:
        path: File or folder.
        loader: Reads it; a function of a module, because its name is part of the cache's key.
        key: Whatever else the result depends on.
        also: Other files that the loader reads where they are there.
    """
    file = Path(path).resolve()
    identity = ("file", str(file), f"{loader.__module__}.{loader.__qualname__}", key)
    return _get(identity, lambda: tuple(map(_signature, (file, *also))), lambda: loader(file))


def make_once(key: Hashable, make: Callable[[], T]) -> T:
    """Return ``make()``, from the cache if it was called before under the same key.

    Args:
        key: Names the value in the whole process, for example ``("hotpotqa", "train")``.
        make: Makes it, and depends on nothing but the key.
    """
    return _get(("made", key), lambda: None, make)


def clear_cache() -> None:
    """Forget all shared data; envs that exist keep what they have."""
    with _lock:
        _values.clear()


def _after_fork_in_child() -> None:
    """Replace the lock, which a thread that the child does not have may have held."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _get(identity: Hashable, signature: Callable[[], Hashable], make: Callable[[], T]) -> T:
    with _lock:
        current = signature()
        cached = _values.get(identity)
        if cached is not None and cached[0] == current:
            return cached[1]
        value = make()
        _values[identity] = (current, value)
        return value


def _signature(path: Path) -> Hashable:
    if path.is_dir():
        return tuple((str(file), _signature(file)) for file in sorted(path.rglob("*")) if file.is_file())
    try:
        status = path.stat()
        with path.open("rb") as file:
            edges = hashlib.sha256(file.read(EDGE_BYTES))
            file.seek(max(status.st_size - EDGE_BYTES, 0))
            edges.update(file.read(EDGE_BYTES))
    except OSError:
        return None  # the loader, if it needs the file at all, will say what is wrong with it
    return status.st_size, status.st_mtime_ns, status.st_ino, edges.hexdigest()
