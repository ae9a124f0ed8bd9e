"""What a warm start was made of, so that a folder never mixes two."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_r1_trainer.files import write_json
from agent_r1_trainer.trainer.resuming import differences

__all__ = ["claim_folder", "digest"]

_FILE = "warm_start.json"


def claim_folder(folder: Path, manifest: Mapping[str, Any], *, write: bool) -> None:
    """Make `folder` the home of a warm start with this manifest, or check that it is.

    Args:
        folder: Made when missing.
        manifest: What decides the result; whatever is no JSON counts by its text.
        write: Whether this process is the one that writes.

    Raises:
        ValueError: The folder holds checkpoints or the model of another warm start.
    """
    path = folder / _FILE
    wanted = json.loads(json.dumps(manifest, default=_plain))
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
        begun = (folder / "model").exists() or any(folder.glob("checkpoint-*"))
        differing = "".join(f"\n  {difference}" for difference in differences(found, wanted))
        if begun and differing:
            raise ValueError(
                f"{folder} holds a warm start of another kind; choose another folder or remove it.{differing}"
            )
    if write:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, wanted)


def digest(data: str | os.PathLike[str] | Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 (hex) of a file, or of rows.

    Raises:
        OSError: The file cannot be read.
    """
    if isinstance(data, (str, os.PathLike)):
        with open(data, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    found = hashlib.sha256()
    for row in data:
        found.update(json.dumps(row, sort_keys=True, default=_plain).encode())
    return found.hexdigest()


def _plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)
