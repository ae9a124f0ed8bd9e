"""Texts in two flat arrays, so that a file of them can be mapped into memory and read one at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from agent_r1_envs.retrieval.types import Passage

_LOSSLESS = "surrogatepass"  # JSON can smuggle lone surrogates into a text; they must come back as they were


@dataclass(frozen=True, slots=True)
class TextTable:
    """A list of strings as UTF-8 in ``blob``; string ``i`` is ``blob[offsets[i]:offsets[i + 1]]``.

    Attributes:
        blob: uint8; ends with one unused byte, because an empty array cannot be mapped.
        offsets: int64 of shape ``[strings + 1]``.
    """

    blob: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> TextTable:
        """Lay out ``texts``."""
        encoded = [text.encode("utf-8", _LOSSLESS) for text in texts]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(item) for item in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join([*encoded, b"\0"]), dtype=np.uint8), offsets)

    def __len__(self) -> int:
        """Return the number of strings."""
        return len(self.offsets) - 1

    def encoded(self, index: int) -> bytes:
        """Return string ``index`` as UTF-8."""
        return self.blob[int(self.offsets[index]) : int(self.offsets[index + 1])].tobytes()

    def __getitem__(self, index: int) -> str:
        return self.encoded(index).decode("utf-8", _LOSSLESS)


@dataclass(frozen=True, slots=True)
class SortedWords:
    """A vocabulary that stays on disk: words in order of their UTF-8 bytes, found by bisection.

    Attributes:
        table: The words, sorted by their bytes.
        numbers: int32 of shape ``[words]``; the number of each.
    """

    table: TextTable
    numbers: npt.NDArray[np.int32]

    @classmethod
    def of(cls, vocabulary: dict[str, int]) -> SortedWords:
        """Sort a vocabulary."""
        ordered = sorted(vocabulary, key=lambda word: word.encode("utf-8", _LOSSLESS))
        return cls(TextTable.of(ordered), np.array([vocabulary[word] for word in ordered], dtype=np.int32))

    def get(self, word: str, /) -> int | None:
        """Return the number of ``word``, or None."""
        wanted = word.encode("utf-8", _LOSSLESS)
        place = bisect_left(range(len(self.table)), wanted, key=self.table.encoded)
        return int(self.numbers[place]) if place < len(self.table) and self.table.encoded(place) == wanted else None


@dataclass(frozen=True, slots=True)
class StoredPassages(Sequence[Passage]):
    """Passages that stay on disk until one is asked for."""

    ids: TextTable
    titles: TextTable
    texts: TextTable

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Passage, ...]: ...
    def __getitem__(self, index: int | slice) -> Passage | tuple[Passage, ...]:
        places = range(len(self))[index]
        return tuple(map(self._read, places)) if isinstance(places, range) else self._read(places)

    def __iter__(self) -> Iterator[Passage]:
        return map(self._read, range(len(self)))

    def _read(self, place: int) -> Passage:
        return Passage(self.ids[place], self.titles[place], self.texts[place])
