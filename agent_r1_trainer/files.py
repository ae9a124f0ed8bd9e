"""Files of a run: which run a folder belongs to, who writes there, and lines that stay once they are written."""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from agent_r1_envs.files import read_json_object

try:
    import fcntl
except ImportError:  # Windows: two runs in one folder are then the user's own business
    fcntl = None  # type: ignore[assignment]

__all__ = ["FileLock", "JsonLines", "LockError", "ManifestError", "read_manifest", "refuse_another", "run_lock"]

logger = logging.getLogger(__name__)
_held: set[FileLock] = set()


class ManifestError(ValueError):
    """A folder belongs to another run, or does not say to which; the message says more, and the way out."""


def read_manifest(path: Path, way_out: str) -> dict[str, Any] | None:
    """What a folder's run was made with; None where the file is missing.

    Args:
        path: The file.
        way_out: What to do where it is damaged, for the message.

    Raises:
        ManifestError: It is damaged.
    """
    try:
        return read_json_object(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ManifestError(f"{path} is damaged ({error}); {way_out}") from error


def refuse_another(folder: Path, what: str, differences: Iterable[object], way_out: str) -> None:
    """Refuse a folder that holds something of other settings.

    Args:
        folder: Its path, for the message.
        what: What it holds, for the message.
        differences: What is otherwise there than it was asked for.
        way_out: What to do about it, for the message.

    Raises:
        ManifestError: There is a difference.
    """
    if lines := "".join(f"\n  {difference}" for difference in differences):
        raise ManifestError(f"{folder} holds {what} with other settings; {way_out}.{lines}")


class LockError(RuntimeError):
    """Another run has the lock; the message names it and the way out."""


def run_lock(folder: str | os.PathLike[str]) -> FileLock:
    """The lock on the folder of a training run; uploads to a hub leave its file out, for the underscore in front."""
    way_out = "wait for it, stop it, or choose another folder (output_dir, --out)"
    return FileLock(Path(folder) / "_run.lock", str(folder), way_out)


class JsonLines:
    """A file of JSON lines that one process appends to, safe against being killed at any moment; a context manager.

    Opening it makes the file and its folder, takes a lock that the system frees when the process ends, and cuts away
    what a killed process left half written.

    Args:
        path: The file.
        whole: Returns how many bytes of the open file are to be kept; without it a torn last line is cut away.

    Raises:
        LockError: Another process has the file open.
    """

    def __init__(self, path: Path, whole: Callable[[BinaryIO], int] | None = None) -> None:
        self.path = path
        self._whole = _whole_lines if whole is None else whole
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), str(path), "wait for it or choose another --out")
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        try:
            self._file = self.path.open("ab+")
            self._file.truncate(self._whole(self._file))
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

    def append(self, *rows: Mapping[str, Any]) -> None:
        """Write lines; when it returns, they survive the end of this process."""
        assert self._file is not None, "the file is open inside its with block only"
        lines = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        self._file.write(lines.encode("utf-8", "replace"))
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

    @property
    def held(self) -> bool:
        """Whether the kernel has given this process the lock; never where the file system has none."""
        return self._file is not None

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
