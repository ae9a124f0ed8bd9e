"""Files of a run: written in one step, and held by one process at a time."""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import time
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: two runs in one folder are then the user's own business
    fcntl = None  # type: ignore[assignment]

__all__ = ["FileLock", "LockError", "run_lock", "write_json"]

logger = logging.getLogger(__name__)
_held: set[FileLock] = set()


class LockError(RuntimeError):
    """Another run has the lock; the message names it and the way out."""


def write_json(path: Path, value: Any) -> None:
    """Write JSON in one step: nobody sees half a file."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    scratch.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    os.replace(scratch, path)


def run_lock(folder: str | os.PathLike[str]) -> FileLock:
    """The lock on the folder of a training run; uploads to a hub leave its file out, for the underscore in front."""
    way_out = "wait for it, stop it, or choose another folder (output_dir, --out)"
    return FileLock(Path(folder) / "_run.lock", str(folder), way_out)


class FileLock:
    """A lock of the kernel's, which is gone with the process that holds it, however that ends; a context manager.

    It can be taken again by who holds the same object, and must then be given back as often. Two objects exclude each
    other, in one process too. A forked child does not inherit it: a worker that outlives a killed run must not lock its
    folder up. Where the file system has no locks, the log says so and the run goes on without.

    Args:
        path: A file for the lock alone, made with its folder and removed in the end. It says who holds the lock.
        what: What is locked, for the message.
        way_out: What to do about it, for the message.
    """

    def __init__(self, path: Path, what: str, way_out: str) -> None:
        self.path = path
        self._what, self._way_out = what, way_out
        self._depth = 0
        self._file: int | None = None
        self._made_folder = False

    def acquire(self) -> None:
        """Take the lock, without waiting for it.

        Raises:
            LockError: Somebody else has it.
        """
        if self._depth == 0 and fcntl is not None:
            self._made_folder = not self.path.parent.exists()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock()
        self._depth += 1

    def release(self) -> None:
        """Give the lock back; of a lock that is not held nothing happens."""
        self._depth = max(self._depth - 1, 0)
        if self._depth or self._file is None:
            return
        try:
            self.path.unlink(missing_ok=True)  # while it is held: who comes now makes a file of their own
            if self._made_folder:
                self.path.parent.rmdir()
        except OSError:  # the folder holds something, as it should
            pass
        self._forget()

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _lock(self) -> None:
        assert fcntl is not None
        while True:
            file = None
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                same = _same_file(file, self.path)
            except OSError as error:
                busy = file is not None and error.errno in (errno.EAGAIN, errno.EACCES)
                holder = _holder(file) if busy and file is not None else ""
                if file is not None:
                    os.close(file)
                if busy:
                    raise LockError(f"{self._what} is in use by {holder}: {self._way_out}") from None
                logger.warning("%s cannot be locked (%s): a second run there would not be noticed", self._what, error)
                return
            if same:
                break
            os.close(file)  # whoever had it removed the file between our opening and locking it
        self._file = file
        os.ftruncate(file, 0)
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode(), 0)
        _held.add(self)

    def _forget(self) -> None:
        """Close the file; in a forked child this leaves the parent its lock."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._depth = None, 0
        _held.discard(self)


def _same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(file: int) -> str:
    """Who wrote into the lock's file."""
    for _ in range(20):  # the lock is taken an instant before its file says by whom
        try:
            found = json.loads(os.pread(file, 4096, 0))
            pid, host, since = found["pid"], found["host"], found["since"]
        except (ValueError, KeyError, TypeError, OSError):
            time.sleep(0.01)
            continue
        where = "" if host == socket.gethostname() else f" on {host}"
        return f"process {pid}{where}{' (this one)' if not where and pid == os.getpid() else ''}, since {since}"
    return "another process"


def _in_child() -> None:
    for lock in list(_held):
        lock._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
