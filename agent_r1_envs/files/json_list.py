"""Decodes a JSON list or object element by element, so that a file of a gigabyte is never held whole."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

from agent_r1_envs.errors import DataError

_CHUNK: Final = 1 << 20
_SPACE: Final = " \t\r\n"

T = TypeVar("T")


class _Reader:
    """What both readers share: a window on the text, and decoding what stands at its beginning."""

    def __init__(self, path: Path, file: TextIO, chunk: int = _CHUNK) -> None:
        self._path, self._file, self._chunk = path, file, chunk
        self._text, self._place = "", 0
        self._decoder = json.JSONDecoder()

    def _element(self, where: str, ends: str, what: str = "a JSON object") -> Any:
        self._sign()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._place)
            except (ValueError, RecursionError) as error:
                if self._more():  # the element may only be cut off by the end of the chunk
                    continue
                raise DataError(f"{self._path}, {where}: expected {what}, found bad JSON: {error}") from None
            # A number may go on in the next chunk; what ends an element is a sign of the list.
            following = self._text[end : end + 1]
            if following and following in _SPACE + ends or not self._more():
                self._place = end
                return value

    def _expect(self, signs: str, where: str) -> str:
        sign = self._sign()
        if not sign or sign not in signs:
            shown = repr(sign) if sign else "the end of the file"
            raise DataError(f"{self._path}, {where}: expected {' or '.join(map(repr, signs))}, found {shown}")
        self._place += 1
        return sign

    def _sign(self) -> str:
        """Skip white space and return the next character, without taking it; empty at the end of the file."""
        while True:
            while self._place < len(self._text) and self._text[self._place] in _SPACE:
                self._place += 1
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                return ""

    def _more(self) -> bool:
        # At least as much as is pending, so that an element over many chunks is not scanned once a chunk.
        chunk = self._file.read(max(self._chunk, len(self._text) - self._place))
        self._text, self._place = self._text[self._place :] + chunk, 0
        return bool(chunk)

    def _rows(self, opening: str, closing: str, read: Callable[[int], T]) -> Iterator[T]:
        """Yield what `read` makes of each row between the brackets, which must be all that the file holds."""
        self._expect(opening, "at the beginning")
        number = 0
        if self._sign() == closing:
            self._place += 1
        else:
            while True:
                yield read(number)
                if self._expect("," + closing, f"after row {number}") == closing:
                    break
                number += 1
        if self._sign():
            raise DataError(f"{self._path}, after row {number}: expected the end of the file, found {self._sign()!r}")


class ListReader(_Reader):
    """Iterates over the elements of the JSON list that a text file holds.

    Args:
        path: What errors call the file.
        file: The open file, at its beginning.
        chunk: How many characters to read at a time.
    """

    def __iter__(self) -> Iterator[Any]:
        """Yield the elements.

        Raises:
            DataError: The file is no JSON list; the message names the row.
        """
        return self._rows("[", "]", lambda number: self._element(f"row {number}", ",]"))


class ObjectReader(_Reader):
    """Iterates over the names and values of the JSON object that a text file holds; arguments as for a list."""

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield the pairs.

        Raises:
            DataError: The file is no JSON object; the message names the pair.
        """
        return self._rows("{", "}", self._pair)

    def _pair(self, number: int) -> tuple[str, Any]:
        if self._sign() != '"':
            self._expect('"', f"row {number}")
        name = self._element(f"row {number}", ":", "a name")
        self._expect(":", f"row {number}, after {name[:60]!r}")
        return name, self._element(f"row {number}, {name[:60]!r}", ",}", "JSON")
