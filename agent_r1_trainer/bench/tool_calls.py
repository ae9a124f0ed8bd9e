"""Tool calls of the chat completions API: into the text that the env reads, and back into the conversation.

The API keeps calls outside of a reply's text, with an id each, and wants a message of its own for the result of each.
Environments and context operations know replies as text. So a reply is played as text in Hermes form, and a
conversation that is sent has the calls put back where the text stands, as the server wrote them: with its ids, and
with whatever else it wants to see again (a signature, its reasoning).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_r1_wrappers.formats.hermes import CALL_CLOSE, CALL_OPEN, HermesError, read_calls, write_call

__all__ = ["Turn", "read_message", "with_calls"]

_SEE_FIRST = "The result of this call stands in the first message after the calls."


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model said.

    Attributes:
        reply: As text, which is what the env gets.
        message: As a message with tool calls, to send back; None for a reply without calls, or with calls that cannot
            be read, which some servers refuse to see again.
    """

    reply: str
    message: dict[str, Any] | None = None


def read_message(message: dict[str, Any], turn: int) -> Turn:
    """Read a message of a chat completion.

    Args:
        message: ``choices[0].message``.
        turn: Number of the turn, for the ids of calls that have none.

    Raises:
        TypeError: It has another form; also KeyError and AttributeError.
    """
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    calls = message.get("tool_calls") or []
    if not calls:
        return Turn(content)
    texts = [_call_text(call["function"]) for call in calls]
    reply = "\n".join([*([_beside_calls(content)] if content else []), *(text for text, _ in texts)])
    if not all(readable for _, readable in texts):
        return Turn(reply)
    kept = {name: value for name, value in message.items() if value is not None or name == "content"}
    ids = [str(call.get("id") or "") for call in calls]
    if not all(ids) or len(set(ids)) < len(ids):  # nine letters and digits: what the strictest server takes
        ids = [f"call{turn % 1000:03d}{number % 100:02d}" for number in range(len(calls))]
    named = [
        {**call, "id": id_, "type": "function", "function": {**function, "arguments": _arguments_text(function)}}
        for call, id_, function in zip(calls, ids, (call["function"] for call in calls), strict=True)
    ]
    return Turn(reply, {**kept, "role": "assistant", "tool_calls": named})


def with_calls(messages: Sequence[Mapping[str, Any]], turns: Sequence[Turn]) -> list[Mapping[str, Any]]:
    """Return a conversation with the tool calls of earlier turns in place of their text.

    A reply that a context operation has changed, or left without an observation after it, stays the text that it is.
    Where a turn had several calls, the observation is the result of the first, and the results of the others say so.

    Args:
        messages: The conversation as the env emits it.
        turns: The model's turns of this episode, in order.
    """
    replayed = _matching(messages, turns)
    told: list[Mapping[str, Any]] = []
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if waiting:
            contents = [message["content"], *[_SEE_FIRST] * (len(waiting) - 1)]
            told += [
                {"role": "tool", "tool_call_id": id_, "content": content}
                for id_, content in zip(waiting, contents, strict=True)
            ]
            waiting = []
            continue
        following = messages[place + 1].get("role") if place + 1 < len(messages) else ""
        if place in replayed and following in ("user", "tool"):
            told.append(replayed[place])
            waiting = [call["id"] for call in replayed[place]["tool_calls"]]
        else:
            told.append(message)
    return told


def _matching(messages: Sequence[Mapping[str, Any]], turns: Sequence[Turn]) -> dict[int, dict[str, Any]]:
    """Find which replies of the conversation had calls, from the end: the oldest turns may be left out."""
    found: dict[int, dict[str, Any]] = {}
    left = len(turns)
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].get("role") != "assistant":
            continue
        same = (number for number in range(left - 1, -1, -1) if turns[number].reply == messages[place].get("content"))
        number = next(same, None)
        if number is not None:
            left = number
            if (native := turns[number].message) is not None:
                found[place] = native
    return found


def _call_text(function: dict[str, Any]) -> tuple[str, bool]:
    """Return a call in Hermes form, and whether its arguments are an object."""
    name, arguments = function["name"], _arguments_text(function)
    try:
        value = json.loads(arguments)
        return write_call(name, value), isinstance(value, dict) and isinstance(name, str)
    except (ValueError, RecursionError):  # the model's own fault: pass it on as it wrote it
        return f'{CALL_OPEN}\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n{CALL_CLOSE}', False


def _arguments_text(function: dict[str, Any]) -> str:
    arguments = function.get("arguments") or "{}"
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _beside_calls(content: str) -> str:
    """Return the text beside calls so that it is read as none of them."""
    try:
        if not read_calls(content):
            return content
    except HermesError:
        pass
    return content.replace("<", "<\\")
