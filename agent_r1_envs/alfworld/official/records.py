"""A game as a short line of JSON, of which a game is made again in a fraction of the time that parsing takes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from sys import intern
from typing import Any, Final

from agent_r1_envs.alfworld.game.model import Game, Goal, State

__all__ = ["FORMAT", "Record", "canonical", "decode", "encode"]

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
