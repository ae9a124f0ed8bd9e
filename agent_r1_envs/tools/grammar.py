r"""The grammar of tool calls.

An action is one call or several, in either form or both:

* ``name[argument]``, one a line. The argument reaches to the last ``]`` of the line, is taken as it stands, and fills
  the tool's primary parameter. Lines end at ``"\n"`` only.
* JSON: ``{"name": .., "arguments": {..}}``, one object after the other or a list of them, free to span lines. The
  arguments may be JSON inside a string, as some models write them. An argument with a line break needs this form.

Anything else, prose included, is an error, and so is a number that JSON does not have, a key that appears twice, or
half of a surrogate pair. Reading takes time linear in the length of the action.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from agent_r1_envs.text import echo, is_unicode
from agent_r1_envs.tools.base import Tool

__all__ = ["Call", "CallSyntaxError", "format_calls", "parse_calls"]

MAX_DEPTH = 32
"""How deep arguments may be nested: enough for data, and far from where copying or pickling them would overflow."""

_SPACE = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[^\W\d][\w.-]*")
_KEYS = frozenset({"id", "name", "arguments"})


class CallSyntaxError(ValueError):
    """An action is not a sequence of calls; the text says why, for the model to read."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool.

    Attributes:
        name: Name of the tool, which need not exist.
        arguments: Arguments by name, JSON data as the model wrote it.
    """

    name: str
    arguments: dict[str, Any]


def parse_calls(text: str, tools: Mapping[str, Tool], *, max_calls: int) -> list[Call]:
    """Read the calls of an action.

    Args:
        text: The action.
        tools: The tools by name, which say what ``name[argument]`` fills. A call of another tool is read as well: it
            is for the env to say that there is none.
        max_calls: The most calls that are accepted.

    Returns:
        At least one call, in the order of the text.

    Raises:
        CallSyntaxError: If the text is not made of calls, or of too many.
    """
    calls: list[Call] = []
    position = _skip_space(text, 0)
    while position < len(text):
        if text[position] in "{[":
            value, position = _read_json(text, position)
            items = value if isinstance(value, list) else [value]
            if not items:
                raise CallSyntaxError("the list of calls is empty")
            for item in items[: max_calls + 1]:
                calls.append(_call_from_json(item))
        else:
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            calls.append(_call_from_line(text[position:end], tools))
            position = end
        if len(calls) > max_calls:
            raise CallSyntaxError(f"at most {max_calls} calls a turn are possible")
        position = _skip_space(text, position)
    if not calls:
        raise CallSyntaxError("the action is empty")
    return calls


def format_calls(calls: Sequence[Call], tools: Mapping[str, Tool]) -> str:
    """Write calls so that :func:`parse_calls` reads the same: ``name[argument]`` where that is possible, else JSON.

    Args:
        calls: The calls; their arguments are JSON data without half surrogate pairs.
        tools: The tools by name.

    Returns:
        One call a line.
    """
    return "\n".join(_format_call(call, tools) for call in calls)


def _format_call(call: Call, tools: Mapping[str, Tool]) -> str:
    primary = tools[call.name].primary if call.name in tools else None
    if primary is not None and list(call.arguments) == [primary]:
        argument = call.arguments[primary]
        if isinstance(argument, str) and "\n" not in argument:
            return f"{call.name}[{argument}]"
    return json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False, allow_nan=False)


def _call_from_line(line: str, tools: Mapping[str, Tool]) -> Call:
    opening, closing = line.find("["), line.rfind("]")
    name = line[:opening] if opening >= 0 else line
    if opening < 0 or not _NAME.fullmatch(name):
        raise CallSyntaxError(f"this is not a call: {echo(line)}")
    if closing < opening:
        raise CallSyntaxError(f"the closing ] is missing: {echo(line)}")
    if line[closing + 1 :].strip():
        raise CallSyntaxError(f"there is text after the call: {echo(line)}")
    argument = line[opening + 1 : closing]
    if not is_unicode(argument):
        raise CallSyntaxError("the argument holds half of a surrogate pair")
    tool = tools.get(name)
    if tool is None:
        return Call(name, {"argument": argument} if argument else {})
    if tool.primary is not None:
        return Call(name, {tool.primary: argument})
    if argument.strip():
        raise CallSyntaxError(f"the arguments of {name} must be written as JSON: {tool.usage}")
    return Call(name, {})


def _call_from_json(value: Any) -> Call:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise CallSyntaxError('a JSON call is an object {"name": ..., "arguments": {...}}')
    unknown = [key for key in value if key not in _KEYS]
    if unknown:
        raise CallSyntaxError(f'a JSON call has the keys "name" and "arguments", not "{echo(unknown[0])}"')
    arguments = value.get("arguments", {})
    if isinstance(arguments, str):
        arguments, end = _read_json(arguments, _skip_space(arguments, 0), what='the text of "arguments"')
        if _skip_space(value["arguments"], end) < len(value["arguments"]):
            raise CallSyntaxError('the text of "arguments" goes on after its JSON object')
    if not isinstance(arguments, dict):
        raise CallSyntaxError('"arguments" is an object of arguments by name')
    return Call(value["name"], arguments)


def _read_json(text: str, position: int, what: str = "the JSON") -> tuple[Any, int]:
    try:
        value, end = _DECODER.raw_decode(text, position)
        _check_data(value, 0)
    except CallSyntaxError:
        raise
    except RecursionError:
        raise CallSyntaxError(f"{what} is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise CallSyntaxError(f"{what} cannot be read: {_explain(error)}") from None
    except ValueError as error:
        raise CallSyntaxError(f"{what} cannot be read: {echo(str(error))}") from None
    return value, end


def _explain(error: json.JSONDecodeError) -> str:
    """Say what is wrong, and what is usually meant, at the place where the decoder gave up."""
    here = error.doc[error.pos : error.pos + 1]
    before = error.doc[max(error.pos - 100, 0) : error.pos].rstrip()
    hint = ""
    if here == "'":
        hint = "; strings need double quotes"
    elif "trailing comma" in error.msg or (here in ("}", "]") and before.endswith(",")):
        hint = "; there is a comma too many"
    elif not here:
        hint = "; it breaks off"
    near = echo(error.doc[max(error.pos - 20, 0) : error.pos + 20])
    return f"{error.msg} at character {error.pos + 1}{hint}, near: {near}"


def _check_data(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CallSyntaxError(f"the JSON is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str) and not is_unicode(value):
        raise CallSyntaxError("a string holds half of a surrogate pair")
    if isinstance(value, list):
        for item in value:
            _check_data(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_data(key, depth + 1)
            _check_data(item, depth + 1)


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise CallSyntaxError(f'the key "{echo(counts.most_common(1)[0][0])}" appears twice')
    return value


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise CallSyntaxError(f"the number {echo(text)} is too large")
    return number


def _constant(name: str) -> NoReturn:
    raise CallSyntaxError(f"JSON has no {name}")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)
