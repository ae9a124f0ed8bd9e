"""Words for what is not installed."""

from __future__ import annotations

__all__ = ["explain_missing"]

_TRAIN = frozenset(
    {"torch", "transformers", "trl", "accelerate", "peft", "datasets", "safetensors", "matplotlib", "yaml"}
)


def explain_missing(error: ModuleNotFoundError, what: str) -> ImportError:
    """Return the error to raise when ``what`` failed to import: with the pip command, where an extra would help."""
    missing = (error.name or "").partition(".")[0]
    if missing not in _TRAIN:
        return error
    return ImportError(f"{what} needs {missing}: pip install 'agent-r1[train]'", name=error.name)
