"""The log of a run: one line of JSON an episode, safe against being killed at any moment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from agent_r1_trainer.bench.episode import EpisodeRecord
from agent_r1_trainer.files import FileLock

__all__ = ["EpisodeLog", "LogError", "read_log"]


class LogError(RuntimeError):
    """The log cannot be read or written; the message names the file and the way out."""


def read_log(path: Path) -> list[EpisodeRecord]:
    """Return the records of a log in order of episode; the last line of an episode counts.

    A torn last line, which a killed run leaves, is ignored.

    Raises:
        LogError: Another line is damaged.
    """
    if not path.exists():
        return []
    records: dict[int, EpisodeRecord] = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line break is empty or torn
        try:
            record = EpisodeRecord.from_json(json.loads(line))
        except ValueError as error:
            raise LogError(f"{path}, line {number}: not the record of an episode: {error}; remove the line") from error
        records[record.episode] = record
    return [records[episode] for episode in sorted(records)]


class EpisodeLog:
    """Appends records to a log; a context manager.

    Opening it takes a lock that the system frees when the process ends, and cuts a torn last line away.

    Args:
        path: The file; made when missing.

    Raises:
        LockError: Another run has the log open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), str(path), "wait for it or choose another --out")
        self._file: BinaryIO | None = None

    def __enter__(self) -> EpisodeLog:
        self._lock.acquire()
        try:
            self._file = self.path.open("ab+")
            self._file.truncate(_whole_lines(self._file))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.release()

    def append(self, record: EpisodeRecord) -> None:
        """Write one line; when it returns, the line survives the end of this process."""
        assert self._file is not None, "the log is open inside its with block only"
        line = json.dumps(record.to_json(), ensure_ascii=False, allow_nan=False)
        self._file.write(line.encode("utf-8", "replace") + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _whole_lines(file: BinaryIO) -> int:
    """Return the length of the file up to and with its last line break."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        begin = max(0, end - 65_536)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
