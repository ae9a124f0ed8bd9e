"""How long text is, for wrappers with a budget."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from agent_r1_envs.spaces import Message
from agent_r1_wrappers.callables import load_callable

MESSAGE_OVERHEAD = 4
"""What a chat template adds to each message, in tokens."""

MessageLength = Callable[[Sequence[Message]], int]

_PIECE = re.compile(r"\w+|[^\w\s]")
_BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer.

    The larger of two counts: words and punctuation marks, and bytes of UTF-8 by four. English text comes out within
    about a fifth of a byte-pair tokenizer's count; a budget that must hold exactly needs the tokenizer itself.

    Example:
        >>> estimate_tokens("Who wrote Dubliners, and when?")
        8
    """
    size = len(text.encode("utf-8", "replace"))
    return max(sum(1 for _ in _PIECE.finditer(text)), -(-size // _BYTES_PER_TOKEN))


def count_words(text: str) -> int:
    """Count the words of a text, separated by white space."""
    return len(text.split())


def count_characters(text: str) -> int:
    """Count the characters of a text."""
    return len(text)


def message_length(length: str | Callable[..., int], length_of: Literal["text", "messages"]) -> MessageLength:
    """Return a function that measures a list of messages.

    Args:
        length: A callable or ``"module:function"``.
        length_of: What it measures: the text of one message (4 are added for each), or a whole list of messages.

    Raises:
        ValueError: If ``length_of`` is neither.
        TypeError: If ``length`` cannot be called.
    """
    measure = load_callable(length, "length")
    if length_of == "messages":
        return measure
    if length_of != "text":
        raise ValueError(f"length_of is 'text' or 'messages', got {length_of!r}")
    return lambda messages: sum(measure(message["content"]) + MESSAGE_OVERHEAD for message in messages)
