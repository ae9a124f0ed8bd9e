"""JSON as models write it: what has one possible meaning is read, what has not is explained.

Strict JSON goes through the standard library. What it refuses is read again by a small recursive reader that also takes
single quotes, trailing commas, Python's ``True``, ``False`` and ``None``, keys without quotes, line breaks inside
strings, code fences around the text, missing closing brackets (only where the caller knows that the text is complete)
and closing brackets too many. Both run in linear time, refuse a key given twice, and never guess.
"""

import json
import re
from typing import Any

_DEPTH = 32
_VALUES = 1000
_SPACE = re.compile(r"\s*+")
_DOUBLE = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_SINGLE = re.compile(r"'([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL)
_ESCAPE_OR_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_][\w-]*+")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_FENCE = re.compile(r"```[\w+-]*+")


class LenientJSONError(ValueError):
    """Text that is not JSON and has no single reading; the message says where and why, for the model."""


def read_values(text: str, *, complete: bool = True) -> list[Any]:
    """Read the JSON objects and arrays of a text, one after the other.

    Args:
        text: One or several objects or arrays, separated by white space or a comma, maybe inside a code fence.
        complete: Whether the writer is known to have finished, so that missing closing brackets may be supplied.

    Returns:
        The values, at least one.

    Raises:
        LenientJSONError: If the text has no single reading.
    """
    text = strip_fence(text)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except LenientJSONError:
        raise
    except (ValueError, RecursionError):
        return _Reader(text, complete).values()
    if not isinstance(value, dict | list):
        raise LenientJSONError(f"expected a JSON object, found {_near(text, 0)}")
    return [value]


def strip_fence(text: str) -> str:
    """Return the text without surrounding white space and without the code fence around it, if it has one."""
    text = text.strip()
    opening = _FENCE.match(text)
    if opening:
        text = text[opening.end() :].removesuffix("```").strip()
    return text


def _refuse_constant(name: str) -> None:
    raise LenientJSONError(f"{name} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise LenientJSONError(f"the key {_cut(json.dumps(key, ensure_ascii=False))} is given twice")
        found[key] = value
    return found


def _cut(text: str, length: int = 30) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _near(text: str, position: int) -> str:
    return repr(_cut(text[position : position + 31], 30)) if position < len(text) else "the end of the text"


class _Reader:
    """A recursive reader over one text; the position only ever moves forward."""

    def __init__(self, text: str, complete: bool) -> None:
        self.text = text
        self.complete = complete
        self.position = 0

    def values(self) -> list[Any]:
        found = [self._container()]
        while not self._at_end():
            if self._peek() in "]}":  # closing brackets too many: nothing may follow them
                self._skip("]}")
                if not self._at_end():
                    raise self._error("unexpected text after the closing brackets")
                break
            self._skip(",")
            found.append(self._container())
            if len(found) > _VALUES:
                raise LenientJSONError(f"more than {_VALUES} values")
        return found

    def _container(self) -> Any:
        self._space()
        if self._peek() not in ("{", "["):
            raise self._error("expected a JSON object")
        return self._value(0)

    def _value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise LenientJSONError(f"more than {_DEPTH} levels of nesting")
        self._space()
        start = self._peek()
        if start == "{":
            return self._object(depth)
        if start == "[":
            return self._array(depth)
        if start in ('"', "'"):
            return self._string()
        number = _NUMBER.match(self.text, self.position)
        if number:
            self.position = number.end()
            return self._number(number)
        word = _WORD.match(self.text, self.position)
        if word and word[0] in _WORDS:
            self.position = word.end()
            return _WORDS[word[0]]
        raise self._error("expected a value (text needs double quotes)")

    def _object(self, depth: int) -> dict[str, Any]:
        self.position += 1
        pairs: list[tuple[str, Any]] = []
        while not self._closes("}"):
            key = self._key()
            self._space()
            if self._peek() != ":":
                raise self._error("expected ':' after a key")
            self.position += 1
            pairs.append((key, self._value(depth + 1)))
            self._separator("}")
        return _unique(pairs)

    def _array(self, depth: int) -> list[Any]:
        self.position += 1
        items = []
        while not self._closes("]"):
            items.append(self._value(depth + 1))
            self._separator("]")
        return items

    def _closes(self, bracket: str) -> bool:
        """Step over the closing bracket if it comes next, or suppose it at the end of a complete text."""
        if self._at_end():
            if self.complete:
                return True
            raise self._error(f"expected '{bracket}'")
        if self._peek() == bracket:
            self.position += 1
            return True
        return False

    def _separator(self, bracket: str) -> None:
        if self._at_end() or self._peek() == bracket:
            return
        if self._peek() != ",":
            raise self._error(f"expected ',' or '{bracket}' (a quote inside a text must be written \\\")")
        self.position += 1

    def _key(self) -> str:
        self._space()
        if self._peek() in ('"', "'"):
            return self._string()
        word = _WORD.match(self.text, self.position)
        if word is None:
            raise self._error("expected a key in double quotes")
        self.position = word.end()
        return word[0]

    def _string(self) -> str:
        quote = self._peek()
        match = (_DOUBLE if quote == '"' else _SINGLE).match(self.text, self.position)
        if match is None:
            raise self._error("a text is not closed by a quote")
        self.position = match.end()
        if "\\" not in match[1] and '"' not in match[1]:
            return match[1]
        body = _ESCAPE_OR_QUOTE.sub(_as_json_escape, match[1])
        try:
            return json.loads(f'"{body}"', strict=False)
        except ValueError as error:
            raise LenientJSONError(f"a text has an escape that JSON does not know, near {_cut(repr(body))}") from error

    def _number(self, match: re.Match[str]) -> int | float:
        if match[1] or match[2]:
            return float(match[0])
        try:
            return int(match[0])
        except ValueError as error:
            raise LenientJSONError("a number has too many digits") from error

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _space(self) -> None:
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position

    def _skip(self, characters: str) -> None:
        while not self._at_end() and self._peek() in characters:
            self.position += 1

    def _at_end(self) -> bool:
        self._space()
        return self.position >= len(self.text)

    def _error(self, expected: str) -> LenientJSONError:
        return LenientJSONError(f"{expected} at character {self.position + 1}, found {_near(self.text, self.position)}")


def _as_json_escape(match: re.Match[str]) -> str:
    r"""Write one escape or bare double quote of a body as JSON does: ``\'`` is an apostrophe, ``"`` is ``\"``."""
    found = match[0]
    if found == "\\'":
        return "'"
    return '\\"' if found == '"' else found
