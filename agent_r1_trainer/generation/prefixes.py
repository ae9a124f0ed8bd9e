"""Which of the rows that were read before a prompt continues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from zlib import crc32

from agent_r1_trainer.generation.contexts import CachedRow
from agent_r1_trainer.trajectory import TokenIds

__all__ = ["PrefixIndex"]


class PrefixIndex:
    """Finds the longest row that a prompt begins with, however many there are.

    Rows lie under their length and a checksum of their ids. A prompt's checksum is carried on from each length to the
    next longer one, so that a search reads the prompt once. What it finds is compared id by id.

    Args:
        rows: What was read. Of rows with the same ids the first one is found.
    """

    def __init__(self, rows: Iterable[CachedRow]) -> None:
        self._rows: dict[tuple[int, int], list[CachedRow]] = {}
        for row in rows:
            found = self._rows.setdefault((len(row.ids), crc32(row.ids.tobytes())), [])
            if all(other.ids != row.ids for other in found):
                found.append(row)
        self._lengths = sorted({length for length, _ in self._rows})

    def longest(self, prompt: TokenIds) -> CachedRow | None:
        """The row that holds most of a prompt's beginning, its last token excepted: something must be left to read."""
        candidates = [row for found in self._candidates(prompt) for row in found]
        return next((row for row in reversed(candidates) if prompt.starts_with(row.ids)), None)

    def _candidates(self, prompt: TokenIds) -> Iterator[list[CachedRow]]:
        """Rows of the same length and checksum as a beginning of the prompt, the shortest first."""
        data = memoryview(prompt.tobytes())
        width = data.nbytes // len(prompt)
        checksum = begin = 0
        for length in self._lengths:
            if length >= len(prompt):
                return
            checksum = crc32(data[begin * width : length * width], checksum)
            begin = length
            if (length, checksum) in self._rows:
                yield self._rows[length, checksum]
