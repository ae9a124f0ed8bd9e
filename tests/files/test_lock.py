"""The lock on the folder of a run: between processes, between trainers, after a kill, across a fork."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from agent_r1_trainer import files
from agent_r1_trainer.files import FileLock, LockError, run_lock

HOLD = """
import sys, time
from agent_r1_trainer.files import run_lock
run_lock(sys.argv[1]).acquire()
{more}
print("held", flush=True)
time.sleep(60)
"""
FORK = """
import os
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, b"1")  # it is a process of its own by now, and has closed the lock's file
    time.sleep(60)
    os._exit(0)
os.read(read, 1)
"""


def holder(folder: Path, more: str = "") -> subprocess.Popen[str]:
    code = HOLD.format(more=more)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("more", ["", FORK], ids=["alone", "with a forked child that lives on"])
def test_a_killed_process_leaves_no_lock(tmp_path: Path, more: str) -> None:
    process = holder(tmp_path, more)
    try:
        with pytest.raises(LockError, match=rf"{tmp_path} is in use by process {process.pid}, since 2.*wait for it"):
            run_lock(tmp_path).acquire()
        process.send_signal(signal.SIGKILL)
        process.wait()
        with run_lock(tmp_path):
            pass
    finally:
        with suppress(ProcessLookupError):  # nobody is left of the one that was alone
            os.killpg(process.pid, signal.SIGKILL)


def test_two_of_one_process_exclude_each_other_and_one_may_take_it_twice(tmp_path: Path) -> None:
    first, second = run_lock(tmp_path / "run"), run_lock(tmp_path / "run")
    with first, first:
        with pytest.raises(LockError, match=f"process {os.getpid()} .this one., since"):
            second.acquire()
        first.release()
        with pytest.raises(LockError):
            second.acquire()
        first.acquire()
    assert not (tmp_path / "run").exists()  # what was made for the lock alone is gone with it
    with second:
        with pytest.raises(LockError):
            first.acquire()
    second.release()  # of a lock that is not held nothing happens
    first.acquire()
    first.release()


def test_a_forked_child_neither_keeps_nor_removes_the_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with run_lock(tmp_path) as lock:
        child = context.Process(target=lock.release)
        child.start()
        child.join()
        assert lock.path.exists()
        with pytest.raises(LockError):
            run_lock(tmp_path).acquire()
        sleeper = context.Process(target=time.sleep, args=(60,))
        sleeper.start()
    try:
        with run_lock(tmp_path):
            pass
    finally:
        sleeper.kill()
        sleeper.join()


def test_a_process_on_another_machine_is_named(tmp_path: Path) -> None:
    with run_lock(tmp_path) as lock:
        lock.path.write_text(json.dumps({"pid": 7, "host": "node-3", "since": "then"}))
        with pytest.raises(LockError, match="in use by process 7 on node-3, since then"):
            run_lock(tmp_path).acquire()
        lock.path.write_text("")
        with pytest.raises(LockError, match="in use by another process"):
            run_lock(tmp_path).acquire()


def test_without_locks_in_the_file_system_the_run_goes_on(tmp_path: Path, monkeypatch, caplog) -> None:
    def none(*args: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", none)
    with caplog.at_level(logging.WARNING), run_lock(tmp_path):
        assert "cannot be locked" in caplog.text and "No locks available" in caplog.text


def test_a_file_that_was_removed_meanwhile_is_no_lock(tmp_path: Path, monkeypatch) -> None:
    flock, waiting = files.fcntl.flock, [tmp_path / "x.lock"]

    def late(file: int, how: int) -> None:
        flock(file, how)
        if waiting:
            waiting.pop().unlink()

    monkeypatch.setattr(files.fcntl, "flock", late)
    with FileLock(tmp_path / "x.lock", "x", "wait"), pytest.raises(LockError):
        FileLock(tmp_path / "x.lock", "x", "wait").acquire()
