"""Official games: folders and archives, filters, order, the index, and what is wrong with damaged ones."""

import json
import multiprocessing
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_r1_envs.alfworld.official.finding import REASONS
from agent_r1_envs.alfworld.official.parsing import parse_game
from agent_r1_envs.alfworld.official.store import Record, StoreWriter, decode, encode, open_store
from agent_r1_envs.alfworld.sources import DEFAULT_SKIP, load_tasks, open_index, task_types_of
from agent_r1_envs.cache import clear_cache
from agent_r1_envs.errors import DataError
from tests.alfworld.games import fixture_files, raw_game
from tests.data import real_data


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A writable folder with four games of valid_seen."""
    root = tmp_path / "json_2.1.1"
    for file in [file for file in fixture_files() if "valid_seen" in file.parts][::5]:
        shutil.copytree(file.parent, root / "valid_seen" / file.parent.parent.name / file.parent.name)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755)
    return root


def first_game(root: Path) -> Path:
    return sorted(root.rglob("game.tw-pddl"))[0]


def change(file: Path, **keys: Any) -> None:
    raw = {**raw_game(file), **keys}
    file.write_text(json.dumps({key: value for key, value in raw.items() if value != "absent"}))


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_a_folder_is_read_in_the_order_of_the_ids(split: str) -> None:
    tasks = load_tasks(split, real_data("alfworld") / "json_2.1.1")
    folder = real_data("alfworld") / "json_2.1.1" / split
    assert list(tasks.ids) == sorted(
        file.parent.relative_to(folder).as_posix() for file in fixture_files() if split in file.parts
    )
    assert (len(tasks), tasks.dataset, tasks.split) == (18, "alfworld", split)
    for task_id, task in zip(tasks.ids, tasks, strict=True):
        record = task.load()
        assert task.id == task_id and task.task_type == record.game.goal.task_type == task_id.split("-")[0]
        assert record.game == parse_game(raw_game(folder / task_id / "game.tw-pddl"))
        assert len(record.annotations) >= 3


def test_the_folder_may_be_named_at_any_level(few: Path) -> None:
    panels = [load_tasks("validation", path) for path in (few, few.parent, few / "valid_seen")]
    assert len({panel.content_hash for panel in panels}) == 1 and len(panels[0]) == 4


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "zip"])
def test_an_archive_is_the_same_panel(few: Path, tmp_path: Path, kind: str) -> None:
    archive = tmp_path / f"games.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            for file in sorted(few.rglob("*"), reverse=True):
                target.write(file, file.relative_to(few.parent))
    else:
        with tarfile.open(archive, "w:" + kind.partition(".")[2]) as target:
            target.add(few, few.name)
    assert load_tasks("valid_seen", archive).content_hash == load_tasks("valid_seen", few).content_hash
    with pytest.raises(DataError, match="expected games of split 'train', found valid_seen"):
        load_tasks("train", archive)


def test_a_single_game(few: Path) -> None:
    file = first_game(few)
    for path in (file, file.parent):
        (task,) = load_tasks("valid_seen", path)
        assert task.id == file.parent.name and task.load().game == parse_game(raw_game(file))


def test_a_relative_path_is_looked_up(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_R1_DATA", str(few.parent))
    assert len(load_tasks("valid_seen", "json_2.1.1")) == 4
    with pytest.raises(DataError, match="no such file or folder: nowhere or "):
        load_tasks("valid_seen", "nowhere")


def test_task_types_by_name_and_number(few: Path) -> None:
    types = {task.task_type for task in load_tasks("valid_seen", few)}
    one = sorted(types)[0]
    assert {task.task_type for task in load_tasks("valid_seen", few, task_types=[one])} == {one}
    assert task_types_of([6, 1]) == ("pick_and_place_simple", "pick_two_obj_and_place")
    for wrong in ([], [0], ["fly"], "pick_and_place_simple"):
        with pytest.raises(ValueError, match="task_types"):
            task_types_of(wrong)
    with pytest.raises(DataError, match=r"found none \(games of other types: 4; left out: none\)"):
        missing = sorted(set(task_types_of(None)) - types)
        load_tasks("valid_seen", few, task_types=missing)


DAMAGE: dict[str, tuple[str, str, Callable[[Path], None]]] = {
    "not JSON": ("damaged", "found bad JSON", lambda file: file.write_text("{")),
    "empty": ("damaged", "found bad JSON", lambda file: file.write_text("")),
    "no problem": ("damaged", "pddl_problem: expected a text", lambda file: change(file, pddl_problem="absent")),
    "foreign rules": ("unsupported", "backend='textworld'", lambda file: change(file, pddl_domain="(define)")),
    "unsolvable": ("unsolvable", "solvable: expected true, found False", lambda file: change(file, solvable=False)),
    "unchecked": ("unsolvable", "found none: nobody has checked", lambda file: change(file, solvable="absent")),
    "hopeless": (
        "unsolvable",
        "expected a game with a plan, found none",
        lambda file: change(file, pddl_problem=raw_game(file)["pddl_problem"].replace("(pickupable ", "(moveable ")),
    ),
    "missing": ("missing", "beside traj_data.json, found none", Path.unlink),
    "trajectory": (
        "damaged",
        "traj_data.json",
        lambda file: (file.parent / "traj_data.json").write_text("[]") and None,
    ),
    "foreign task": (
        "unsupported",
        "task_type: expected one of the six, found 'fly'",
        lambda file: (file.parent / "traj_data.json").write_text('{"task_type": "fly"}') and None,
    ),
    "movable": (
        "movable",
        "movable receptacle",
        lambda file: file.parent.rename(file.parent.parent / "movable") and None,
    ),
    "sliced": ("sliced", "sliced", lambda file: file.parent.rename(file.parent.parent / "AppleSliced") and None),
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_games_that_cannot_be_played_are_named_or_skipped(few: Path, damage: str) -> None:
    reason, message, spoil = DAMAGE[damage]
    spoil(first_game(few))
    with pytest.raises(DataError, match=message) as raised:
        load_tasks("valid_seen", few, skip=())
    assert str(few) in str(raised.value) and first_word(few) in str(raised.value) and reason in str(raised.value)
    assert len(load_tasks("valid_seen", few, skip=[reason])) == 3
    if reason in DEFAULT_SKIP:
        assert len(load_tasks("valid_seen", few)) == 3


def first_word(few: Path) -> str:
    return sorted(few.glob("valid_seen/*"))[0].name


def test_the_negative_example_is_refused(tmp_path: Path) -> None:
    folder = real_data("alfworld") / "negative_multi_agent"
    with pytest.raises(DataError, match=r"expected one agent, found 3 \(alice, bob, charlie\)"):
        load_tasks("train", folder)
    with pytest.raises(DataError, match="found none .*left out: 1 unsupported"):
        load_tasks("train", folder, skip=tuple(REASONS))


def test_what_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(DataError, match="expected a folder or an archive of games, found damage"):
        load_tasks("train", tmp_path / "text")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match="found none"):
        load_tasks("train", tmp_path / "nothing")
    with pytest.raises(DataError, match="expected a folder 'train', found valid_seen, valid_unseen"):
        load_tasks("train", real_data("alfworld") / "json_2.1.1")


def test_two_folders_of_a_split_are_one_too_many(few: Path) -> None:
    shutil.copytree(few / "valid_seen", few / "copy" / "valid_seen")
    with pytest.raises(DataError, match="expected one folder 'valid_seen', found .*, .*copy"):
        load_tasks("valid_seen", few)


def test_a_truncated_archive_is_named(few: Path, tmp_path: Path) -> None:
    archive = tmp_path / "games.tar.xz"
    with tarfile.open(archive, "w:xz") as target:
        target.add(few, few.name)
    archive.write_bytes(archive.read_bytes()[:-5000])
    with pytest.raises(DataError, match=r"games\.tar\.xz: expected a folder or an archive of games, found damage"):
        load_tasks("valid_seen", archive)


def test_wrong_combinations_raise(few: Path) -> None:
    with pytest.raises(ValueError, match="belong to the embedded games"):
        load_tasks("valid_seen", few, difficulty="easy")
    with pytest.raises(ValueError, match="split must be one of"):
        load_tasks("dev")
    with pytest.raises(ValueError, match="skip: expected movable"):
        load_tasks("valid_seen", few, skip=["everything"])
    with pytest.raises(ValueError, match="games must be a number"):
        load_tasks("train", games=0)


def test_the_index_is_built_once_and_again_when_a_game_changes(few: Path, own_cache: Path) -> None:
    before = load_tasks("valid_seen", few)
    (index,) = own_cache.rglob("*.games")
    built = index.stat().st_mtime_ns
    clear_cache()
    assert load_tasks("valid_seen", few).content_hash == before.content_hash
    assert index.stat().st_mtime_ns == built
    file = first_game(few)
    raw = raw_game(file)
    change(file, pddl_problem=raw["pddl_problem"].replace("(:init", "(:init (openable Nothing_bar_1)"))
    clear_cache()
    assert load_tasks("valid_seen", few).content_hash == before.content_hash, "a fact about nothing changes nothing"
    assert index.stat().st_mtime_ns != built
    assert [path.name for path in index.parent.iterdir()] == [index.name], "no half-written files are left"


def test_a_damaged_index_is_built_again(few: Path, own_cache: Path) -> None:
    before = load_tasks("valid_seen", few)
    (index,) = own_cache.rglob("*.games")
    content = index.read_bytes()
    for damaged in (b"", b"x", content[:-1], content + b"x", b"\xff" * 100, b"{}" + content, content[:50]):
        index.write_bytes(damaged)
        with pytest.raises(DataError):
            open_store(index)
        clear_cache()
        assert load_tasks("valid_seen", few).content_hash == before.content_hash
        assert index.read_bytes() == content


def test_without_a_place_for_the_index_it_is_kept_in_memory(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path / "file"))
    assert len(load_tasks("valid_seen", few)) == 4
    assert load_tasks("valid_seen", few)[0].load().game.receptacles


def test_the_index_lies_in_the_cache_wherever_that_is(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENT_R1_CACHE", "~/x")
    monkeypatch.setenv("AGENT_R1_DATA", "~/data")
    shutil.copytree(few, tmp_path / "home" / "data" / "games")
    assert len(load_tasks("valid_seen", "games")) == 4
    assert len(list((tmp_path / "home" / "x" / "alfworld").glob("*.games"))) == 1
    assert not (tmp_path / "~").exists()
    monkeypatch.delenv("AGENT_R1_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    clear_cache()
    assert len(load_tasks("valid_seen", "games")) == 4
    assert len(list((tmp_path / "caches" / "agent-r1" / "alfworld").glob("*.games"))) == 1


def build(few: str) -> str:
    clear_cache()
    return load_tasks("valid_seen", few).content_hash


def test_processes_may_build_it_at_the_same_time(few: Path, own_cache: Path) -> None:
    with multiprocessing.get_context("fork").Pool(3) as pool:
        hashes = pool.map(build, [str(few)] * 6)
    assert len(set(hashes)) == 1
    assert len(list(own_cache.rglob("*"))) == 2, "the folder and one index"


def test_records_are_exact() -> None:
    for file in fixture_files()[::5]:
        record = Record(parse_game(raw_game(file)), ("put it away",))
        assert decode(encode(record)) == record


def test_an_open_index_survives_its_file(few: Path, own_cache: Path) -> None:
    store = open_index(few, "valid_seen")
    (index,) = own_cache.rglob("*.games")
    os.unlink(index)
    assert store.read(store.rows[0]).game.objects


def test_a_store_is_sorted(tmp_path: Path) -> None:
    writer = StoreWriter()
    record = Record(parse_game(raw_game(fixture_files()[0])))
    for name in ("b", "a", "c/d"):
        writer.add(name, record)
    assert [row.id for row in writer.save(tmp_path / "x.games", ["source"]).rows] == ["a", "b", "c/d"]
