"""Where the games of a split come from: the embedded panel, or official games behind an index."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agent_r1_envs.alfworld.embedded import load_panel
from agent_r1_envs.alfworld.game.model import TASK_TYPES
from agent_r1_envs.alfworld.official.finding import OFFICIAL_SPLITS, REASONS, find_games, read_game, split_folder
from agent_r1_envs.alfworld.official.store import Problem, Store, StoreWriter, open_store
from agent_r1_envs.alfworld.tasks import HouseholdTask, StoredTask, load_file_tasks
from agent_r1_envs.cache import make_once
from agent_r1_envs.errors import DataError
from agent_r1_envs.files import cache_folder, resolve
from agent_r1_envs.tasks import TaskSet

__all__ = ["DEFAULT_SKIP", "load_tasks", "open_index", "split_of", "task_types_of"]

DATASET: Final = "alfworld"
DEFAULT_SKIP: Final = ("movable", "sliced", "missing", "unsolvable")
"""The reasons for which alfworld itself leaves games out."""

_ALIASES: Final = {"validation": "valid_seen", "test": "valid_unseen"}


def load_tasks(
    split: str,
    data: str | Path | None = None,
    *,
    skip: Sequence[str] = DEFAULT_SKIP,
    task_types: Sequence[str | int] | None = None,
    games: int | None = None,
    games_seed: int = 0,
    difficulty: str | Mapping[str, Any] = "standard",
    as_files: bool = False,
) -> TaskSet[HouseholdTask]:
    """Return the tasks of a split, sorted by id where they are official.

    Args:
        split: ``train``, ``valid_seen`` (alias ``validation``) or ``valid_unseen`` (alias ``test``).
        data: A folder or an archive of official games, or one game file; None for the embedded panel.
        skip: For which reasons (see ``official.REASONS``) an official game is left out; any other problem raises.
        task_types: Names or official numbers (1 to 6) of the task types; None for all.
        games: Of the embedded panel: how many games.
        games_seed: Of the embedded panel: its seed.
        difficulty: Of the embedded panel: see ``generator.difficulty_of``.
        as_files: Whether official games are wanted as files, for the original to play, whatever rules are in them.

    Raises:
        ValueError: An argument is out of its range, or does not go with the others.
        DataError: The data are missing or damaged, or hold a game that cannot be played and is not to be skipped.
    """
    name, types = split_of(split), task_types_of(task_types)
    if unknown := set(skip) - set(REASONS):
        raise ValueError(f"skip: expected {', '.join(REASONS)}; got {', '.join(sorted(map(repr, unknown)))}")
    if data is None:
        key = ("alfworld", name, games, games_seed, json.dumps(difficulty), types)
        return make_once(
            key, lambda: load_panel(name, games=games, seed=games_seed, difficulty=difficulty, task_types=types)
        )
    if games is not None or games_seed or difficulty != "standard":
        raise ValueError("games, games_seed and difficulty belong to the embedded games: leave them out with data=")
    path = resolve(data).resolve()
    if as_files:
        return make_once(
            ("alfworld files", str(path), name, tuple(sorted(skip)), types, _stamp(path)),
            lambda: load_file_tasks(path, name, skip, types),
        )
    store = open_index(path, name)
    _raise_problems(path, [problem for problem in store.problems if problem.reason not in skip])
    return make_once(
        ("alfworld tasks", str(path), name, _stamp(path), types), lambda: _official_tasks(path, name, store, types)
    )


def open_index(path: Path, split: str) -> Store:
    """Return the index of a split, which is built when there is none or the games have changed.

    It is written to the cache's folder, or kept in memory where that cannot be. Within a process the files of a folder
    are looked at once, an archive every time.

    Raises:
        DataError: The data are missing or damaged.
    """
    identity = hashlib.sha256(f"{path}\n{split}".encode("utf-8", "surrogateescape")).hexdigest()[:24]
    file = cache_folder() / "alfworld" / f"{split}-{identity}.games"

    def load() -> Store:
        source = json.loads(json.dumps(_source(path, split)))
        try:
            store = open_store(file)
            if store.source == source:
                return store
        except DataError:
            pass  # there is none, or one of another version
        return build_index(path, split, file, source)

    return make_once(("alfworld index", str(path), split, str(file), _stamp(path)), load)


def build_index(path: Path, split: str, file: Path, source: Hashable) -> Store:
    """Read every game of a split and write the index."""
    writer = StoreWriter()
    ids: set[str] = set()
    for raw in find_games(path, split):
        if raw.id in ids:
            raise DataError(f"{path}: expected each game once, found {raw.id!r} again")
        ids.add(raw.id)
        found = read_game(raw)
        if isinstance(found, Problem):
            writer.leave_out(found)
        else:
            writer.add(raw.id, found)
    return writer.save(file, source)


def split_of(split: str) -> str:
    """Return the official name of a split.

    Raises:
        ValueError: There is no such split.
    """
    name = _ALIASES.get(split, split)
    if name not in OFFICIAL_SPLITS:
        raise ValueError(f"split must be one of {', '.join((*OFFICIAL_SPLITS, *_ALIASES))}; got {split!r}")
    return name


def task_types_of(task_types: Sequence[str | int] | None) -> tuple[str, ...]:
    """Return the names of task types that are given as names or official numbers, in the official order.

    Raises:
        ValueError: One of them is unknown, or there is none.
    """
    if task_types is None:
        return TASK_TYPES
    names = {number: name for number, name in enumerate(TASK_TYPES, start=1)}
    wanted = {names.get(value, value) if isinstance(value, int) else value for value in task_types}
    if not wanted or isinstance(task_types, str) or wanted - set(TASK_TYPES):
        raise ValueError(f"task_types: expected some of {', '.join(TASK_TYPES)}, or of 1 to 6; got {task_types!r}")
    return tuple(name for name in TASK_TYPES if name in wanted)


def _official_tasks(path: Path, split: str, store: Store, types: tuple[str, ...]) -> TaskSet[HouseholdTask]:
    rows = [row for row in store.rows if row.task_type in types]
    if not rows:
        left_out = Counter(problem.reason for problem in store.problems)
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items())) or "none"
        raise DataError(
            f"{path}: expected games of split {split!r} and the task types {', '.join(types)}, found none "
            f"(games of other types: {len(store.rows)}; left out: {counts})"
        )
    lines = [split, *(f"{row.id} {row.digest}" for row in rows)]
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
    tasks: list[HouseholdTask] = [StoredTask(store, row) for row in rows]
    return TaskSet(tasks, dataset=DATASET, split=split, ids=[row.id for row in rows], content_hash=digest)


def _raise_problems(path: Path, problems: Sequence[Problem]) -> None:
    if problems:
        first = problems[0]
        more = f"; {len(problems) - 1} more games cannot be played" if len(problems) > 1 else ""
        skip = sorted({*DEFAULT_SKIP, *(problem.reason for problem in problems)})
        raise DataError(f"{path}, game {first.id!r}: {first.message}{more}. skip={skip!r} leaves them out")


def _source(path: Path, split: str) -> Hashable:
    """Return what tells whether the games of a split have changed: names, sizes and times."""
    if path.is_file():
        return _stamp(path)
    folder = split_folder(path, split)
    return tuple(_listing(folder, folder))


def _listing(root: Path, folder: Path) -> Iterable[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _listing(root, Path(entry.path))
            elif entry.name in ("game.tw-pddl", "traj_data.json"):
                status = entry.stat()
                yield os.path.relpath(entry.path, root), status.st_size, status.st_mtime_ns


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return (status.st_size, status.st_mtime_ns) if path.is_file() else (0, 0)
