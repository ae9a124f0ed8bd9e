"""Reading ``<tool_call>{"name": .., "arguments": {..}}</tool_call>`` as models write it.

What has one possible meaning is read: everything that :mod:`agent_r1_wrappers.formats.lenient_json` repairs, a closing
tag missing before the next call or at the end, several calls in one element, ``parameters`` for ``arguments``, OpenAI's
``{"function": {..}}``, arguments as JSON inside a string, and a reply that is nothing but JSON calls without tags.
"""

import json
from dataclasses import dataclass
from typing import Any

from agent_r1_wrappers.formats.lenient_json import LenientJSONError, read_values, strip_fence
from agent_r1_wrappers.formats.tags import THINK_CLOSE, UnclosedThinkingError, opens_thinking, thinking_end

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
MAX_CALLS = 32
"""The most calls that are read; no env takes as many."""

_MARKS = (CALL_OPEN, CALL_CLOSE, "<think>", THINK_CLOSE)
_ARGUMENT_KEYS = ("arguments", "parameters")
_IGNORED_KEYS = ("id", "type")


class HermesError(ValueError):
    """Calls that cannot be read in one way; the message says why, for the model."""


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as it was written: text in place of arguments, where they are no JSON, may fill a tool's only argument."""

    name: str
    arguments: dict[str, Any] | str


def read_calls(reply: str) -> list[RawCall]:
    """Return the calls that follow the thinking, in order; none if the reply holds none.

    Raises:
        HermesError: If thinking or a call is broken beyond unambiguous repair.
    """
    try:
        start = _end_of_thinking(reply)
    except UnclosedThinkingError as error:
        raise HermesError(str(error)) from error
    position = reply.find(CALL_OPEN, start)
    if position < 0:
        return _bare_calls(reply[start:])
    calls: list[RawCall] = []
    while position >= 0:
        try:
            values, end = _read_element(reply, position + len(CALL_OPEN))
            calls.extend(call for value in values for call in _to_calls(value))
        except (LenientJSONError, HermesError) as error:
            raise HermesError(f"tool call {len(calls) + 1}: {error}") from error
        if len(calls) > MAX_CALLS:
            raise HermesError(f"there are more than {MAX_CALLS} tool calls")
        position = reply.find(CALL_OPEN, end)
    return calls


def write_call(name: str, arguments: dict[str, Any]) -> str:
    """Write one call; a ``<`` that begins a tag of the format inside an argument is escaped as JSON allows."""
    text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False, allow_nan=False)
    for mark in _MARKS:
        text = text.replace(mark, "\\u003c" + mark[1:])
    return f"{CALL_OPEN}\n{text}\n{CALL_CLOSE}"


def _end_of_thinking(reply: str) -> int:
    """Like :func:`thinking_end`, but a ``</think>`` inside the JSON of a call, before any thinking, is only text."""
    end = thinking_end(reply)
    if end == 0 or opens_thinking(reply):
        return end
    position = reply.find(CALL_OPEN, 0, end)
    for _ in range(MAX_CALLS):
        if position < 0:
            break
        found = _read_strictly(reply, position + len(CALL_OPEN))
        if found is not None and found[1] >= end:
            return 0
        position = reply.find(CALL_OPEN, position + 1 if found is None else found[1], end)
    return end


def _read_element(reply: str, start: int) -> tuple[list[Any], int]:
    """Read the values of the element whose text begins at ``start``; return them and the position behind it."""
    found = _read_strictly(reply, start)
    if found is not None:
        value, end = found
        following = end + len(reply[end : end + 64]) - len(reply[end : end + 64].lstrip())
        if reply.startswith(CALL_CLOSE, following):
            return [value], following + len(CALL_CLOSE)
        if following == len(reply) or reply.startswith(CALL_OPEN, following):
            return [value], following
    closing, opening = reply.find(CALL_CLOSE, start), reply.find(CALL_OPEN, start)
    complete = closing >= 0 and not 0 <= opening < closing
    end = closing if complete else (opening if opening >= 0 else len(reply))
    values = read_values(reply[start:end], complete=complete)
    return values, end + len(CALL_CLOSE) if complete else end


def _read_strictly(reply: str, start: int) -> tuple[Any, int] | None:
    """Read one strict JSON object or array at ``start``; None if there is none, or one that needs a closer look."""
    begin = start + len(reply[start : start + 64]) - len(reply[start : start + 64].lstrip())
    if reply[begin : begin + 1] not in ("{", "["):
        return None
    try:
        return _STRICT.raw_decode(reply, begin)
    except (ValueError, RecursionError):
        return None


def _bare_calls(text: str) -> list[RawCall]:
    """Read a reply that is nothing but JSON calls; anything else holds no call."""
    text = strip_fence(text.strip().removesuffix(CALL_CLOSE))
    if not text.startswith(("{", "[")):
        return []
    try:
        values = [item for value in read_values(text) for item in (value if isinstance(value, list) else [value])]
        whole = all(isinstance(item, dict) and _has_call_keys(item) for item in values)
        return [call for item in values for call in _to_calls(item)] if whole else []
    except (LenientJSONError, HermesError):
        return []


def _has_call_keys(value: dict[str, Any]) -> bool:
    return "function" in value or ("name" in value and any(key in value for key in _ARGUMENT_KEYS))


def _to_calls(value: Any) -> list[RawCall]:
    if isinstance(value, list):
        if not value:
            raise HermesError("the list of calls is empty")
        return [_to_call(item) for item in value]
    return [_to_call(value)]


def _to_call(value: Any) -> RawCall:
    if not isinstance(value, dict):
        raise HermesError('expected an object {"name": ..., "arguments": {...}}')
    if isinstance(value.get("function"), dict) and "name" not in value:
        value = value["function"]
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise HermesError('"name" must be the name of a tool')
    keys = [key for key in value if key not in ("name", *_IGNORED_KEYS)]
    if any(key not in _ARGUMENT_KEYS for key in keys):
        raise HermesError('put the arguments into an object under "arguments"')
    if len(keys) > 1:
        raise HermesError('give either "arguments" or "parameters"')
    return RawCall(name, _to_arguments(value[keys[0]]) if keys else {})


def _to_arguments(value: Any) -> dict[str, Any] | str:
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            (inner,) = read_values(value)
        except ValueError:  # no JSON, or several values
            return value
        return inner if isinstance(inner, dict) else value
    if not isinstance(value, dict):
        raise HermesError('"arguments" must be an object')
    return value


class _NotStrictError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _NotStrictError
    return found


def _no_constant(name: str) -> None:
    raise _NotStrictError


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
