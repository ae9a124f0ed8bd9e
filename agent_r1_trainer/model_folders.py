"""The folder of a local model: that it holds one, and its identity, so that a run does not go on with other weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_r1_envs.files import sha256

__all__ = ["check_model_folder", "loading_errors", "model_fingerprint"]

_CONFIGS = ("config.json", "adapter_config.json")

_SUFFIXES = frozenset({".safetensors", ".bin", ".json", ".jinja", ".model", ".txt", ".gguf"})


def check_model_folder(model: str) -> None:
    """Refuse a path where there is no model, which transformers would look for on the hub.

    Args:
        model: A path, or a name on a hub: at most one slash, and no folder here before it.

    Raises:
        OSError: There is no such folder, or no model in it.
    """
    path = Path(model)
    if path.is_dir():
        if not any((path / name).is_file() for name in _CONFIGS):
            inner = sorted(found.parent for name in _CONFIGS for found in path.glob(f"*/{name}"))
            hint = f"; there is one in {inner[-1]}" if inner else ""
            raise OSError(f"{model} holds no model (no config.json){hint}")
    elif (
        path.is_absolute()
        or model[:1] in (".", "~")
        or len(path.parts) > 2
        or path.parent.name
        and path.parent.is_dir()
    ):
        found = f"{model} is a file" if path.is_file() else f"there is no folder {model}"
        raise OSError(f"{found}; a model is a folder that save_pretrained wrote, or a name on the hub")


@contextmanager
def loading_errors(model: str) -> Iterator[None]:
    """Say which model could not be loaded, where transformers only says that the hub does not answer.

    Raises:
        OSError: It is no folder, and nothing was found under its name.
    """
    check_model_folder(model)
    try:
        yield
    except OSError as error:
        if Path(model).is_dir():
            raise
        reason = " ".join(str(error).split())
        raise OSError(f"there is no folder {model}, and no model of that name was found: {reason}") from error


def model_fingerprint(model: str) -> str:
    """Return the SHA-256 (hex) of the files of a model's folder, ``""`` for a name on a hub.

    Reads the weights once, which then are in the system's cache when they are loaded.

    Raises:
        OSError: The name is that of a folder, and there is no model.
    """
    check_model_folder(model)
    folder = Path(model)
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.suffix in _SUFFIXES and p.is_file()):
        digest.update(f"{path.name}\0{sha256(path)}\n".encode())
    return digest.hexdigest()
