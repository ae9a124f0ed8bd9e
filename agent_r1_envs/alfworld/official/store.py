"""The games of a collection in one file, which is opened at once and read one game at a time.

A game is kept as a short line of JSON, of which it is made again in a fraction of the time that parsing takes. The file
begins with the length of a header (8 bytes, little endian) and the header, a JSON object; then come these records, one
after the other. It is mapped into memory, so that the processes of a machine share it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from sys import intern
from typing import Any, Final, NamedTuple, NoReturn

from agent_r1_envs.alfworld.game.model import Game, Goal, State
from agent_r1_envs.errors import DataError
from agent_r1_envs.files import written_whole

__all__ = ["FORMAT", "Problem", "Record", "Row", "Store", "StoreWriter", "canonical", "decode", "encode", "open_store"]

FORMAT: Final = 1
"""Raise it whenever a record, or what parsing makes of a game file, changes: old indexes are then built again."""

_FIELDS: Final = tuple(field.name for field in fields(Game))


@dataclass(frozen=True, slots=True)
class Record:
    """A game and what else is known of it.

    Attributes:
        game: The game.
        annotations: The task in the words of people, one text each; empty where nobody was asked.
    """

    game: Game
    annotations: tuple[str, ...] = ()


def encode(record: Record) -> bytes:
    """Return the canonical JSON of a record, compressed."""
    return zlib.compress(canonical(record), 9)


def canonical(record: Record) -> bytes:
    """Return the canonical JSON of a record: equal records give equal bytes on every machine."""
    game = record.game
    values = [getattr(game, name) for name in _FIELDS]
    values[_FIELDS.index("goal")] = [getattr(game.goal, field.name) for field in fields(Goal)]
    text = json.dumps([values, record.annotations], separators=(",", ":"), ensure_ascii=True)
    return text.encode("ascii")


def decode(data: bytes | memoryview) -> Record:
    """Return the record that :func:`encode` made ``data`` of."""
    values, annotations = json.loads(zlib.decompress(data))
    named = dict(zip(_FIELDS, values, strict=True))
    named["goal"] = Goal(*named["goal"])
    named["start"] = _state(named["start"])
    for name in ("places", "receptacles", "objects"):
        named[name] = tuple(map(intern, named[name]))  # thousands of games have a "cabinet 1"
    for name in ("sites", "accepts"):
        named[name] = tuple(named[name])
    named["inside"] = tuple(map(tuple, named["inside"]))
    return Record(Game(**named), tuple(annotations))


def _state(values: Sequence[Any]) -> State:
    return State._make(tuple(value) if isinstance(value, list) else value for value in values)


_LENGTH_BYTES: Final = 8


class Row(NamedTuple):
    """What the header says of a game.

    Attributes:
        id: Its id, the path of its folder in the split.
        task_type: Its task type.
        digest: SHA-256 of its record's canonical JSON, in hex.
        offset: Where its record begins.
        size: How many bytes that has.
    """

    id: str
    task_type: str
    digest: str
    offset: int
    size: int


class Problem(NamedTuple):
    """A game that cannot be played.

    Attributes:
        id: Its id.
        reason: One word for what is wrong with it.
        message: What was expected and found.
    """

    id: str
    reason: str
    message: str


class Store:
    """The games of one split, in the order of their ids.

    Attributes:
        rows: What there is.
        problems: The games that were left out.
        source: What the games were read from, as far as that tells whether it has changed.
    """

    def __init__(self, header: dict[str, Any], data: bytes | mmap.mmap, start: int, path: Path) -> None:
        self.rows = tuple(Row(*row) for row in header["rows"])
        self.problems = tuple(Problem(*problem) for problem in header["problems"])
        self.source: Any = header["source"]
        self._data, self._start, self._path = data, start, path

    def read(self, row: Row) -> Record:
        """Return the game of a row.

        Raises:
            DataError: Its record is damaged.
        """
        begin = self._start + row.offset
        try:
            return decode(self._data[begin : begin + row.size])
        except Exception as error:  # a record that is no more what was written may fail in any way
            _damaged(self._path, f"game {row.id!r}: {error}")


class StoreWriter:
    """Collects games for a :class:`Store`."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, str, bytes]] = []
        self._problems: list[Problem] = []

    def add(self, game_id: str, record: Record) -> None:
        """Add a game."""
        digest = hashlib.sha256(canonical(record)).hexdigest()
        self._rows.append((game_id, record.game.goal.task_type, digest, encode(record)))

    def leave_out(self, problem: Problem) -> None:
        """Note a game that cannot be played."""
        self._problems.append(problem)

    def content(self, source: Hashable) -> tuple[dict[str, Any], bytes]:
        """Return header and records, sorted by id."""
        offset = 0
        rows, records = [], []
        for game_id, task_type, digest, data in sorted(self._rows):
            rows.append(Row(game_id, task_type, digest, offset, len(data)))
            records.append(data)
            offset += len(data)
        header = {"format": FORMAT, "source": source, "rows": rows, "problems": sorted(self._problems)}
        return header, b"".join(records)

    def save(self, path: Path, source: Hashable) -> Store:
        """Write the file, in one step that other processes see whole or not at all, and open it.

        Where it cannot be written, the games are kept in memory.
        """
        header, records = self.content(source)
        head = json.dumps(header, separators=(",", ":")).encode("ascii")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(path) as file:
                for part in (len(head).to_bytes(_LENGTH_BYTES, "little"), head, records):
                    file.write(part)
        except OSError:
            return Store(json.loads(head), records, 0, path)
        return open_store(path)


def open_store(path: Path) -> Store:
    """Open a file of games.

    Raises:
        DataError: It is missing or damaged, or was written by another version.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if length > path.stat().st_size:
                raise DataError(f"{path}: expected a header of {length} bytes, found the end of the file")
            header = json.loads(file.read(length))
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise DataError(f"{path}: cannot read the file: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        _damaged(path, str(error))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"{path}: expected an index of format {FORMAT}, found another")
    try:
        store = Store(header, data, _LENGTH_BYTES + length, path)
        end = _end(store.rows) + _LENGTH_BYTES + length
    except (KeyError, TypeError, ValueError) as error:
        _damaged(path, f"its header: {error!r}")
    if end != len(data):
        raise DataError(f"{path}: expected {end} bytes, found {len(data)}")
    return store


def _damaged(path: Path, reason: str) -> NoReturn:
    raise DataError(f"{path}: the index is damaged: {' '.join(reason.split())}; remove it to have it built again")


def _end(rows: Sequence[Row]) -> int:
    return rows[-1].offset + rows[-1].size if rows else 0
