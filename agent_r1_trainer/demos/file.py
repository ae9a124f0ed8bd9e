"""The file of demonstrations: JSON lines, appended an episode at a time, safe against being killed at any moment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from agent_r1_trainer.files import JsonLines, LockError

__all__ = ["DemoError", "DemoFile", "Found", "read_rows"]


_BEGIN = b'{"prompt": '
"""How every row begins."""


class DemoError(RuntimeError):
    """Demonstrations cannot be made or read; the message says why and what to do."""


@dataclass
class Found:
    """What a file holds.

    Attributes:
        episodes: Numbers of the episodes that are there as a whole, ascending.
        rows: How many rows they have.
        solved: How many of them were solved.
        end: Bytes up to the end of the last whole episode.
        last: The rows of that episode.
    """

    episodes: list[int] = field(default_factory=list)
    rows: int = 0
    solved: int = 0
    end: int = 0
    last: list[dict[str, Any]] = field(default_factory=list)


class DemoFile:
    """Appends episodes to a file; a context manager.

    Opening it cuts away an episode of which only some rows were written, and takes a lock that the system frees when
    the process ends.

    Args:
        path: The file; made, with its folder, when missing.

    Attributes:
        found: What was there when it was opened.

    Raises:
        DemoError: Another process writes to the file, or it holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found = Found()
        self._lines = JsonLines(path, self._scan)

    def __enter__(self) -> DemoFile:
        try:
            self._lines.__enter__()
        except LockError as error:
            raise DemoError(str(error)) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.__exit__(kind, error, trace)

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write an episode; when it returns, the episode survives the end of this process."""
        self._lines.append(*rows)

    def _scan(self, file: BinaryIO) -> int:
        self.found = _scan(file, self.path)
        return self.found.end


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, without a torn last line.

    Raises:
        DemoError: Another line is damaged.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n") and _is_torn(line):
                return
            if line.strip():
                yield _row(line, path, number)


def _scan(file: BinaryIO, path: Path) -> Found:
    found, offset = Found(), 0
    rows: list[dict[str, Any]] = []
    file.seek(0)
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):  # torn, if it is a row at all: what is cut away here cannot be had back
            if not (line.startswith(_BEGIN) or _BEGIN.startswith(line)):
                raise DemoError(f"{path}, line {number}: this is no row of demonstrations; choose another file")
            break
        offset += len(line)
        row = _row(line, path, number)
        try:
            episode, turn, turns, success = row["episode"], row["turn"], row["turns"], row["success"]
        except KeyError as error:
            raise DemoError(f"{path}, line {number}: no row of demonstrations, it lacks {error}") from None
        if turn != len(rows) or (rows and rows[0]["episode"] != episode):
            raise DemoError(f"{path}, line {number}: turn {turn} of episode {episode} does not follow what is before")
        rows.append(row)
        if turn + 1 == turns:
            found.episodes.append(episode)
            found.rows += turns
            found.solved += bool(success)
            found.end, found.last, rows = offset, rows, []
    return found


def _row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DemoError(f"{path}, line {number}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise DemoError(f"{path}, line {number}: expected an object, got {type(row).__name__}")
    return row


def _is_torn(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return True
    return False
