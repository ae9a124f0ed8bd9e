"""Taking the thinking out of earlier replies."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["THINKING_TAGS", "leaves_thinking_open", "strip_messages", "strip_thinking"]

THINKING_TAGS = ("<think>", "</think>")
_THINKING_KEYS = ("reasoning_content", "reasoning", "thinking")


def strip_thinking(reply: str, opened: bool = False) -> str:
    """Return what a reply says after its last thinking span.

    Like the templates of thinking models, it keeps what follows the last closing tag, without leading newlines. A
    span that was never closed (the reply hit its length limit while thinking) reaches to the end.

    Args:
        reply: The text of a reply.
        opened: The generation prompt had already opened a span, so that the reply starts inside one.
    """
    start, end = THINKING_TAGS
    head, closed, answer = reply.rpartition(end)
    if closed:
        answer = answer.lstrip("\n")
    elif opened:
        return ""
    return answer.partition(start)[0]


def strip_messages(messages: Sequence[Mapping[str, Any]], opened: bool = False) -> list[Mapping[str, Any]]:
    """Return the messages without the thinking of assistant messages; those that hold none are the same objects."""
    return [_strip(message, opened) for message in messages]


def leaves_thinking_open(prompt: str) -> bool:
    """Say whether a rendered prompt ends inside a thinking span (its generation prompt opened one)."""
    start, end = THINKING_TAGS
    return prompt.rstrip().endswith(start) and prompt.rfind(start) > prompt.rfind(end)


def _strip(message: Mapping[str, Any], opened: bool) -> Mapping[str, Any]:
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, str):
        return message
    answer = strip_thinking(content, opened)
    if answer == content and not any(key in message for key in _THINKING_KEYS):
        return message
    return {**{key: value for key, value in message.items() if key not in _THINKING_KEYS}, "content": answer}
