"""What the commands share: JSON in an option, the errors that are a user's to read, an exit status."""

from __future__ import annotations

import json
from typing import Any

import gymnasium

__all__ = ["INTERRUPTED", "USER_ERRORS", "json_object"]

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C ended."""

USER_ERRORS = (ValueError, TypeError, ImportError, OSError, gymnasium.error.Error)
"""What is said in one line rather than with a trace: settings, files and environments that cannot work."""


def json_object(text: str, option: str) -> dict[str, Any]:
    """Read the value of an option that is a JSON object.

    Raises:
        ValueError: It is none; the message names the option.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{option} must be a JSON object like '{{\"top_k\": 5}}': {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{option} must be a JSON object like '{{\"top_k\": 5}}', got {text}")
    return value
