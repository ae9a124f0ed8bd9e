"""Where data lie: paths that users give, the folder for what can be made again, and hashes of files."""

import hashlib
import os
from pathlib import Path

from agent_r1_envs.errors import DataError

__all__ = ["cache_folder", "expand", "resolve", "sha256"]


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
