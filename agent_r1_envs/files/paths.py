"""Whole files: where data lie, the folder for what can be made again, JSON that is written in one step, and hashes."""

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from agent_r1_envs.errors import DataError
from agent_r1_envs.files.fields import found

__all__ = [
    "cache_folder",
    "expand",
    "files_of_split",
    "read_json_object",
    "resolve",
    "sha256",
    "sha256_of_all",
    "write_json",
    "written_whole",
]


def expand(path: str | os.PathLike[str]) -> Path:
    """Return a path that a user gave, ``~`` replaced by their folder; every path from outside goes through here."""
    return Path(os.path.expanduser(path))


def resolve(path: str | Path) -> Path:
    """Return an existing path, looking into ``AGENT_R1_DATA`` as well.

    Raises:
        DataError: There is no such file or folder; the message names every place that was tried.
    """
    given = expand(path)
    tried = [given]
    root = os.environ.get("AGENT_R1_DATA")
    if root and not given.is_absolute():
        tried.append(expand(root) / given)
    for candidate in tried:
        if os.path.exists(candidate):  # False as well in a folder that may not be read
            return candidate
    hint = "" if root else "; AGENT_R1_DATA can name a folder to look into"
    raise DataError(f"no such file or folder: {' or '.join(map(str, tried))}{hint}")


def files_of_split(path: Path, split: str, patterns: Mapping[str, Sequence[str]]) -> list[Path]:
    """Return the files of a split: ``path`` itself if it is a file, else those of the first pattern that fits any.

    Args:
        path: A file, or a folder.
        split: Its name.
        patterns: What the files of each split may be called, the best first.

    Raises:
        ValueError: There is no such split.
        DataError: The folder holds no such file.
    """
    if path.is_file():
        return [path]
    if split not in patterns:
        raise ValueError(f"split must be one of {', '.join(patterns)}; got {split!r}")
    for pattern in patterns[split]:
        files = sorted(path.glob(pattern))
        if files:
            return files
    raise DataError(f"{path}: expected one of {', '.join(patterns[split])} for split {split!r}, found none")


def cache_folder() -> Path:
    """Return the folder for what can be made again: ``AGENT_R1_CACHE``, or ``agent-r1`` in the user's cache."""
    own = os.environ.get("AGENT_R1_CACHE")
    if own:
        return expand(own)
    return expand(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "agent-r1"


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_all(paths: Iterable[Path]) -> str:
    """Return one SHA-256 for the contents of files in their order, in hex."""
    return hashlib.sha256(b"".join(bytes.fromhex(sha256(path)) for path in paths)).hexdigest()


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of ``path`` in one step once it is on the disk.

    Nobody ever sees half of it. If the block raises, all is as it was.
    """
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")  # by tempfile no other user could read it
    try:
        with scratch.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    """Write JSON as a whole; see :func:`written_whole`."""
    with written_whole(path) as file:
        file.write((json.dumps(value, indent=indent) + "\n").encode("utf-8"))


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object, as those of `write_json` do.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It cannot be read, or holds something else; the message says what.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {found(value)}")
    return value
