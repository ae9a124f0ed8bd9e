"""The exceptions that environments raise on purpose."""

from gymnasium.error import ResetNeeded

__all__ = ["DataError", "ResetNeeded", "SnapshotError", "ToolError"]


class ToolError(Exception):
    """A tool's answer when it cannot do what was asked; the text is for the model to read.

    A tool env catches it, reports the call as failed and goes on. Any other exception propagates, because it is a
    fault of the tool and not of the model.
    """


class DataError(ValueError):
    """A data file is missing or damaged; the message names file, row, field and what was expected."""


class SnapshotError(ValueError):
    """A snapshot cannot be taken of this wrapper stack, or does not fit the env that it is restored into."""
