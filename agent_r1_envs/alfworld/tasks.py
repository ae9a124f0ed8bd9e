"""The tasks of a split: handles that know how to get their game, so that a panel of thousands is ready at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from agent_r1_envs.alfworld.game.model import TASK_TYPES
from agent_r1_envs.alfworld.generator.generator import Difficulty, generate_game
from agent_r1_envs.alfworld.official.finding import split_folder
from agent_r1_envs.alfworld.official.parsing import parse_game, read_game_file
from agent_r1_envs.alfworld.official.store import Record, Row, Store
from agent_r1_envs.errors import DataError
from agent_r1_envs.tasks import TaskSet

__all__ = ["FileTask", "GeneratedTask", "HouseholdTask", "StoredTask", "load_file_tasks"]

_GAME: Final = "game.tw-pddl"


class HouseholdTask(Protocol):
    """A task of a panel."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def task_type(self) -> str:
        """Its task type."""

    def load(self) -> Record:
        """Return its game."""


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A game out of an index of official games."""

    store: Store
    row: Row

    @property
    def id(self) -> str:
        """Path of its folder in the split."""
        return self.row.id

    @property
    def task_type(self) -> str:
        """Its task type."""
        return self.row.task_type

    def load(self) -> Record:
        """Read the game."""
        return self.store.read(self.row)


@dataclass(frozen=True, slots=True)
class GeneratedTask:
    """A game that is made when it is wanted, which costs less than reading it from a file.

    Attributes:
        split: As in ``generate_game``, like the rest.
        number: Which game.
        seed: The seed of the panel.
        difficulty: How much there is in the household.
        task_type: Its task type.
    """

    split: str
    number: int
    seed: int
    difficulty: Difficulty
    task_type: str

    @property
    def id(self) -> str:
        """Split, seed, number and task type."""
        return f"{self.split}-{self.seed}-{self.number:05d}-{self.task_type}"

    def load(self) -> Record:
        """Make the game."""
        game = generate_game(
            self.split, self.number, seed=self.seed, difficulty=self.difficulty, task_type=self.task_type
        )
        return Record(game)


@dataclass(frozen=True, slots=True)
class FileTask:
    """A game file that is read when it is played.

    Attributes:
        id: Path of its folder in the split.
        task_type: What the name of its folder, or of the one above, begins with.
        file: The ``game.tw-pddl``.
    """

    id: str
    task_type: str
    file: Path

    def load(self) -> Record:
        """Read and parse the game."""
        try:
            return Record(parse_game(read_game_file(self.file.read_bytes())))
        except (OSError, DataError) as error:
            raise DataError(f"{self.file}: {error}") from error


def load_file_tasks(path: Path, split: str, skip: Sequence[str], types: Sequence[str]) -> TaskSet[Any]:
    """Return the game files of a split, sorted by id; the filters are those of alfworld, and none looks into the rules.

    Args:
        path: A folder of games, or a single game file.
        split: An official name.
        skip: Of the reasons to leave a game out: ``movable``, ``sliced`` and ``unsolvable``, which is not marked as
            solvable here.
        types: The task types that are wanted.

    Raises:
        DataError: There is no folder, or it holds no game of these types.
    """
    if path.name == _GAME:
        root, files = path.parent, [path]
    elif path.is_dir():
        root = split_folder(path, split)
        files = sorted(root.rglob(_GAME), key=lambda file: file.parent.relative_to(root).as_posix())
    else:
        raise DataError(f"{path}: backend='textworld' expects a folder of games or a {_GAME}: unpack the archive")
    marks = [mark for reason, mark in (("movable", "movable"), ("sliced", "Sliced")) if reason in skip]
    tasks = []
    for file in files:
        game_id = file.parent.relative_to(root).as_posix() if file.parent != root else root.name
        kinds = (file.parent.parent.name, file.parent.name)
        task_type = next((name for name in TASK_TYPES if any(kind.startswith(name) for kind in kinds)), kinds[0])
        wanted = task_type in types or len(types) == len(TASK_TYPES)
        if wanted and not any(mark in game_id for mark in marks) and ("unsolvable" not in skip or _is_marked(file)):
            tasks.append(FileTask(game_id, task_type, file))
    if not tasks:
        raise DataError(f"{root}: expected games of the task types {', '.join(types)}, found none")
    lines = [split, *(f"{task.id} {task.file.stat().st_size}" for task in tasks)]
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    return TaskSet(tasks, dataset="alfworld", split=split, ids=[task.id for task in tasks], content_hash=digest)


def _is_marked(file: Path) -> bool:
    """Return whether a game file says that it can be solved; a quotation mark inside of a text would be escaped."""
    try:
        return re.search(rb'"solvable"\s*:\s*true', file.read_bytes()) is not None
    except OSError as error:
        raise DataError(f"{file}: cannot read the file: {error.strerror or error}") from error
