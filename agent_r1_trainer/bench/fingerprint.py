"""The identity of a local model, so that a run does not go on with other weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["model_fingerprint"]

_SUFFIXES = frozenset({".safetensors", ".bin", ".json", ".jinja", ".model", ".txt", ".gguf"})


def model_fingerprint(model: str) -> str:
    """Return the SHA-256 (hex) of the files of a model's folder, ``""`` for a name on a hub.

    Reads the weights once, which then are in the system's cache when they are loaded.
    """
    folder = Path(model)
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.suffix in _SUFFIXES and p.is_file()):
        with path.open("rb") as file:
            digest.update(f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
