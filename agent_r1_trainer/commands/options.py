"""JSON on the command line."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_object"]


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
