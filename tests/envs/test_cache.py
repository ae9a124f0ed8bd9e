"""The cache of read-only data."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_r1_envs.cache import clear_cache, load_once, make_once


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    clear_cache()
    yield
    clear_cache()


def read(path: Path) -> list[str]:
    return [file.read_text() for file in (sorted(path.iterdir()) if path.is_dir() else [path])]


def read_upper(path: Path) -> list[str]:
    return [text.upper() for text in read(path)]


def test_a_file_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    first = load_once(file, read)
    monkeypatch.chdir(tmp_path)
    assert load_once("a.txt", read) is first
    assert load_once(str(file), read) is first
    assert load_once(file, read_upper) == ["ONE"]
    assert load_once(file, read, key="other") is not first
    clear_cache()
    assert load_once(file, read) is not first


def test_a_changed_file_is_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    times = file.stat().st_mtime_ns
    assert load_once(file, read) == ["one"]
    file.write_text("two")
    os.utime(file, ns=(times, times))  # the same size at the same time
    assert load_once(file, read) == ["two"]


def test_a_folder_is_all_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    first = load_once(tmp_path, read)
    assert load_once(tmp_path, read) is first
    (tmp_path / "b").write_text("two")
    assert load_once(tmp_path, read) == ["one", "two"]


def test_a_missing_file_is_the_loaders_affair(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_once(tmp_path / "none", read)


def test_a_file_that_may_not_be_read_is_the_loaders_affair(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0)
    (tmp_path / "a").write_text("one")
    user = os.geteuid()
    if user == 0:  # who may read everything
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_mode & 0o005 != 0o005:  # pytest's own folders, one more of them under xdist
                folder.chmod(0o755)
        os.seteuid(65534)
    try:
        assert load_once(tmp_path, lambda path: (path / "a").read_text()) == "one"
        with pytest.raises(PermissionError):
            load_once(tmp_path / "secret", read)
    finally:
        os.seteuid(user)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is not known here")
def test_a_fork_while_a_thread_loads_does_not_wait_for_that_thread() -> None:
    started, finish = threading.Event(), threading.Event()

    def load() -> int:
        started.set()
        finish.wait()
        return 1

    thread = threading.Thread(target=make_once, args=("slow", load))
    thread.start()
    started.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(make_once("quick", lambda: 7))
    status = os.waitpid(child, 0)[1]
    finish.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 7


def test_values_are_made_once_by_key() -> None:
    first = make_once(("panel", "train"), lambda: [1])
    assert make_once(("panel", "train"), lambda: [2]) is first
    assert make_once(("panel", "test"), lambda: [3]) == [3]
    clear_cache()
    assert make_once(("panel", "train"), lambda: [4]) == [4]


def test_a_loader_may_use_the_cache() -> None:
    assert make_once("outer", lambda: [*make_once("inner", lambda: [1]), 2]) == [1, 2]
