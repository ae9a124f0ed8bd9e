"""Making a conversation shorter: whole turns are left out, and where that is not enough, texts are cut in the middle.

A *turn* is an assistant message with what follows it. What comes before the first one, the system message and the first
observation, is the *head*. Messages are never changed: a message that has to be cut is a new one. How long one is, a
wrapper says with a function; there are some here.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Literal

from agent_r1_envs.spaces import Message, Messages
from agent_r1_envs.spaces.messages import encode_messages
from agent_r1_wrappers.callables import load_callable

MESSAGE_OVERHEAD = 4
"""What a chat template adds to each message, in tokens."""
MessageLength = Callable[[Sequence[Message]], int]
_PIECE = re.compile(r"\w+|[^\w\s]")
_BYTES_PER_TOKEN = 4
_WORST_ESCAPE = 6  # JSON writes a control character as \u0000
_FRAME = 64  # more than the JSON around the text of a message with a role only


def fit(messages: list[Message], budget: int, length: MessageLength, *, cut_system: bool = False) -> list[Message]:
    """Shorten a conversation to a budget.

    The oldest turns go first. If the head and the last turn are too long together, texts are cut in the middle, each
    only as far as needed: the last observation, then the reply before it, then the first observation.

    Args:
        messages: The conversation.
        budget: What ``length`` may give at most.
        length: Measures a list of messages.
        cut_system: Whether system messages may be cut in the end. If not, the result can exceed the budget.

    Returns:
        A new list, of the same message objects except for those that were cut.
    """
    head, turns = split_turns(messages)

    def fits_without(dropped: int) -> bool:
        return length(join_turns(head, turns[dropped:])) <= budget

    last = max(len(turns) - 1, 0)
    dropped = bisect_left(range(last), True, key=fits_without)  # the fewest that suffice; dropping more is shorter yet
    shown = join_turns(head, turns[dropped:])
    cuttable = [index for index in reversed(range(len(shown))) if cut_system or shown[index]["role"] != "system"]
    for index in sorted(cuttable, key=lambda index: shown[index]["role"] == "system"):
        if length(shown) <= budget:
            break
        shown[index] = _cut_to_fit(shown, index, lambda trial: length(trial) <= budget)
    return shown


def fit_space(messages: list[Message], space: Messages, bound: float | None = None) -> list[Message]:
    """Return a conversation that is in the space: nearly always the same list, measured without writing it out.

    Args:
        messages: The conversation.
        space: Its space.
        bound: The sum of `json_bound` over the messages, from who knows it.
    """
    if (sum(map(json_bound, messages)) if bound is None else bound) <= space.max_length:
        return messages
    return fit(messages, space.max_length, _json_length, cut_system=True)


def json_bound(message: Message) -> float:
    """Characters that a message of a role and a text has at most as JSON; of one with more in it no bound is known."""
    return len(message["content"]) * _WORST_ESCAPE + _FRAME if len(message) == 2 else math.inf


def split_turns(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """Split a conversation into its head and its turns."""
    starts = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    if not starts:
        return list(messages), []
    head = list(messages[: starts[0]])
    ends = [*starts[1:], len(messages)]
    return head, [list(messages[start:end]) for start, end in zip(starts, ends, strict=True)]


def join_turns(head: Sequence[Message], turns: Sequence[Sequence[Message]]) -> list[Message]:
    """Undo :func:`split_turns`."""
    return [*head, *(message for turn in turns for message in turn)]


def cut_middle(text: str, kept: int) -> str:
    """Keep ``kept`` characters, half of them at each end, around a mark that says how many are left out."""
    if kept >= len(text):
        return text
    end = kept // 2
    mark = f"\n[... {len(text) - kept} characters left out ...]\n"
    return text[: kept - end] + mark + (text[-end:] if end else "")


def _cut_to_fit(messages: list[Message], index: int, fits: Callable[[list[Message]], bool]) -> Message:
    """Return the message at ``index`` cut as little as the budget allows."""
    message = messages[index]
    text = message["content"]

    def with_left_out(count: int) -> list[Message]:
        trial = {**message, "content": cut_middle(text, len(text) - count)}
        return [*messages[:index], trial, *messages[index + 1 :]]

    count = bisect_left(range(len(text)), True, key=lambda count: fits(with_left_out(count)))
    shorter = cut_middle(text, len(text) - count)
    return {**message, "content": shorter} if len(shorter) < len(text) else message


def _json_length(messages: Sequence[Message]) -> int:
    return len(encode_messages(list(messages)))


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
