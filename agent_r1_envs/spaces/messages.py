"""A space of chat conversations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from agent_r1_envs.spaces.free_text import FreeText

__all__ = ["Message", "Messages", "as_messages", "decode_messages", "encode_messages"]

Message = dict[str, Any]
"""A chat message: ``"role"`` and ``"content"`` are strings; other JSON data, such as ``"tool_calls"``, may follow."""

ROLES = ("system", "user", "assistant", "tool")


class Messages(Space[list[Message]]):
    """Every list of chat messages whose JSON text is within ``max_length`` characters.

    Args:
        max_length: The most characters of the conversation written as compact JSON.
        max_messages: The most messages; None sets no limit of its own.
        seed: Seed of :meth:`sample`.

    Raises:
        ValueError: If a limit is too small to hold anything.

    Example:
        >>> [{"role": "user", "content": "Who wrote Dubliners?"}] in Messages()
        True
    """

    def __init__(
        self,
        max_length: int = 262_144,
        max_messages: int | None = None,
        *,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if max_length < 2:
            raise ValueError(f"max_length must leave room for '[]', got {max_length}")
        if max_messages is not None and max_messages < 0:
            raise ValueError(f"max_messages must not be negative, got {max_messages}")
        self.max_length = int(max_length)
        self.max_messages = max_messages
        super().__init__(seed=seed)

    def contains(self, x: Any) -> bool:
        """Tell whether ``x`` is a list of messages, made of JSON data, within the limits."""
        if not isinstance(x, list) or not all(map(_is_message, x)):
            return False
        if self.max_messages is not None and len(x) > self.max_messages:
            return False
        try:
            text = encode_messages(x)
            text.encode("utf-8")
        except (TypeError, ValueError, RecursionError):
            return False
        return len(text) <= self.max_length

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> list[Message]:
        """Draw a conversation of at most four short messages.

        Raises:
            ValueError: If a mask or a probability is given: neither has a meaning here.
        """
        if mask is not None or probability is not None:
            raise ValueError("Messages takes neither a mask nor a probability")
        text = FreeText(min(self.max_length, 64), seed=self.np_random)
        limit = 4 if self.max_messages is None else min(4, self.max_messages)
        drawn: list[Message] = []
        for _ in range(int(self.np_random.integers(0, limit + 1))):
            role = ROLES[int(self.np_random.integers(len(ROLES)))]
            longer = [*drawn, {"role": role, "content": text.sample()}]
            if len(encode_messages(longer)) > self.max_length:
                break
            drawn = longer
        return drawn

    @property
    def is_np_flattenable(self) -> bool:
        """Always False: a conversation has no array of fixed size; render and tokenise it instead."""
        return False

    def __eq__(self, other: object, /) -> bool:
        return isinstance(other, Messages) and (self.max_length, self.max_messages) == (
            other.max_length,
            other.max_messages,
        )

    def __repr__(self) -> str:
        limit = "" if self.max_messages is None else f", max_messages={self.max_messages}"
        return f"Messages({self.max_length}{limit})"


def as_messages(observation: Any) -> list[Mapping[str, Any]] | None:
    """Return an observation as the messages that a chat model reads; None if it is neither text nor messages.

    >>> as_messages("Who wrote Dubliners?")
    [{'role': 'user', 'content': 'Who wrote Dubliners?'}]
    """
    if isinstance(observation, str):
        return [{"role": "user", "content": observation}]
    if isinstance(observation, (list, tuple)) and observation and isinstance(observation[0], Mapping):
        return list(observation)
    return None


def encode_messages(messages: list[Message]) -> str:
    """Write a conversation as compact JSON."""
    return json.dumps(messages, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def decode_messages(text: str) -> list[Message]:
    """Read what :func:`encode_messages` wrote; an empty text is an empty conversation."""
    return json.loads(text) if text else []


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and isinstance(value.get("content"), str)
