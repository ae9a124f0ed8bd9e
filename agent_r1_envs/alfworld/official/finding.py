"""Finds the official games in a folder or an archive, and tells which of them are none for the engine."""

from __future__ import annotations

import json
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import Any, Final

from agent_r1_envs.alfworld.expert.planner import shortest_plan
from agent_r1_envs.alfworld.game.model import TASK_TYPES, Game
from agent_r1_envs.alfworld.official.parsing import parse_game, read_game_file
from agent_r1_envs.alfworld.official.store import Problem, Record
from agent_r1_envs.errors import DataError

__all__ = ["OFFICIAL_SPLITS", "REASONS", "RawGame", "find_games", "read_game"]

OFFICIAL_SPLITS: Final = ("train", "valid_seen", "valid_unseen")

REASONS: Final = {
    "movable": "an object goes into a movable receptacle",
    "sliced": "an object is sliced",
    "missing": "there is a trajectory and no game",
    "unsolvable": "not marked as solvable, or no plan solves it",
    "unsupported": "rules, texts or a goal that the engine does not know",
    "damaged": "a file that cannot be read",
}
"""Why a game may be left out."""

_GAME: Final = "game.tw-pddl"
_TRAJECTORY: Final = "traj_data.json"
_LARGEST: Final = 64 * 2**20


@dataclass(slots=True)
class RawGame:
    """The files of one game.

    Attributes:
        id: Path of its folder in the split.
        game: Content of ``game.tw-pddl``, None if there is none.
        trajectory: Content of ``traj_data.json``, None if there is none.
    """

    id: str
    game: bytes | None = None
    trajectory: bytes | None = None


def find_games(path: Path, split: str) -> Iterator[RawGame]:
    """Yield the games of a split, in no particular order.

    Args:
        path: A folder or archive (tar, also compressed, or zip) that holds ``<split>/.../game.tw-pddl``, or that holds
            games and no folder named as a split; or a single game file.
        split: An official name.

    Raises:
        DataError: The archive is damaged, or there is no such split, or more than one.
    """
    if path.is_dir():
        return _in_folder(split_folder(path, split))
    if path.name == _GAME:
        return iter([_trial(path.parent, path.parent.name)])
    return _in_archive(path, split)


def read_game(raw: RawGame) -> Record | Problem:
    """Parse a game, or tell why it is left out; the filters are those of alfworld's ``collect_game_files``."""

    def problem(reason: str, message: str) -> Problem:
        return Problem(raw.id, reason, message)

    for reason, mark in (("movable", "movable"), ("sliced", "Sliced")):
        if mark in raw.id:
            return problem(reason, f"expected no {mark!r} in its name: {REASONS[reason]}")
    if raw.game is None:
        return problem("missing", f"expected a {_GAME} beside {_TRAJECTORY}, found none")
    try:
        annotations, task_type = _trajectory(raw.trajectory)
        data = read_game_file(raw.game)
    except DataError as error:
        return problem("damaged", str(error))
    if task_type and task_type not in TASK_TYPES:
        return problem("unsupported", f"{_TRAJECTORY}, task_type: expected one of the six, found {task_type!r}")
    if "solvable" in data and not data["solvable"]:
        return problem("unsolvable", f"{_GAME}, solvable: expected true, found {data['solvable']!r}")
    try:
        game = parse_game(data)
    except DataError as error:
        return problem("unsupported", f"{_GAME}, {error}")
    if "solvable" not in data:
        return problem("unsolvable", f"{_GAME}: expected a mark 'solvable', found none: nobody has checked the game")
    if not _can_be_won(game):
        return problem("unsolvable", f"{_GAME}: expected a game with a plan, found none that wins")
    return Record(game, annotations)


def split_folder(path: Path, split: str) -> Path:
    """Return the folder that holds the games of a split.

    Raises:
        DataError: There is none, or more than one.
    """
    found = [folder for folder in (path / split, *sorted(path.glob(f"*/{split}"))) if folder.is_dir()]
    if path.name == split:
        found.append(path)
    if len(found) > 1:
        raise DataError(f"{path}: expected one folder {split!r}, found {', '.join(map(str, found))}")
    if found:
        return found[0]
    others = [name for name in OFFICIAL_SPLITS if (path / name).is_dir() or any(path.glob(f"*/{name}"))]
    if others or path.name in OFFICIAL_SPLITS:
        raise DataError(f"{path}: expected a folder {split!r}, found {', '.join(others or [path.name])}")
    return path


def _in_folder(folder: Path) -> Iterator[RawGame]:
    for trial in sorted({file.parent for name in (_GAME, _TRAJECTORY) for file in folder.rglob(name)}):
        yield _trial(trial, trial.name if trial == folder else trial.relative_to(folder).as_posix())


def _trial(folder: Path, game_id: str) -> RawGame:
    return RawGame(game_id, _content(folder / _GAME), _content(folder / _TRAJECTORY))


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes() if file.is_file() and file.stat().st_size <= _LARGEST else None
    except OSError as error:
        raise DataError(f"{file}: cannot read the file: {error.strerror or error}") from error


def _in_archive(path: Path, split: str) -> Iterator[RawGame]:
    games: dict[str, RawGame] = {}
    whole: dict[str, RawGame] = {}  # of an archive without folders named as splits
    splits = set()
    for name, content in _members(path):
        parts = PurePosixPath(name).parts
        if parts[-1] not in (_GAME, _TRAJECTORY):
            continue
        inside = next((index for index, part in enumerate(parts) if part in OFFICIAL_SPLITS), None)
        if inside is not None:
            splits.add(parts[inside])
        if inside is not None and parts[inside] != split:
            continue
        game_id = "/".join(parts[:-1] if inside is None else parts[inside + 1 : -1])
        raw = (whole if inside is None else games).setdefault(game_id, RawGame(game_id))
        if parts[-1] == _GAME:
            raw.game = content
        else:
            raw.trajectory = content
        if raw.game is not None and raw.trajectory is not None and inside is not None:
            yield games.pop(game_id)
    if splits and split not in splits:
        raise DataError(f"{path}: expected games of split {split!r}, found {', '.join(sorted(splits))}")
    yield from (games if splits else whole).values()


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    if not entry.is_dir() and entry.file_size <= _LARGEST:
                        yield entry.filename, archive.read(entry)
            return
        with tarfile.open(path, "r|*") as stream:
            for member in stream:
                if member.isfile() and member.size <= _LARGEST:
                    file = stream.extractfile(member)
                    assert file is not None
                    yield member.name, file.read()
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError) as error:
        raise DataError(f"{path}: expected a folder or an archive of games, found damage: {error}") from error


def _trajectory(content: bytes | None) -> tuple[tuple[str, ...], str]:
    """Return the goals in people's words and the task type of a ``traj_data.json``."""
    if content is None:
        return (), ""
    try:
        data: Any = json.loads(content)
        annotations = data["turk_annotations"]["anns"] if "turk_annotations" in data else []
        texts = tuple(" ".join(str(annotation["task_desc"]).split()) for annotation in annotations)
        return tuple(text for text in texts if text), str(data.get("task_type", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{_TRAJECTORY}: expected a trajectory, found damage: {error!r}"[:300]) from None


def _can_be_won(game: Game) -> bool:
    return bool(shortest_plan(game, game.start))
