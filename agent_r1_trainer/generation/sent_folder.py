"""A folder through which weights go to servers, which no run that was killed leaves behind for ever."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path

from agent_r1_trainer.files import FileLock, LockError

__all__ = ["SentFolder"]

_LOCK = ".vllm-lock"  # the end of a lock's name
_CLEARING = 1.0
"""Seconds for which another run, which looks whether anybody lives, may hold a lock that is not its own."""


class SentFolder:
    """The folder of one run, which holds a lock beside it while there is something in it.

    Folders of runs that were killed, whose locks nobody holds any more, are deleted when it is first used.

    Args:
        path: That trainer and servers see under the same path.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._open = False
        self._lock = self._beside(self._path.with_name(f"{self._path.name}{_LOCK}"))

    def version(self, name: str) -> Path:
        """Where to put a version."""
        if not self._open:
            for path in self._path.parent.glob(f"*{_LOCK}"):
                self._clear(path)
            self._acquire()
            self._open = True
        return self._path / name

    def keep_only(self, path: Path) -> None:
        """Delete what was sent before."""
        for other in path.parent.iterdir():
            if other != path:
                shutil.rmtree(other, ignore_errors=True)

    def close(self) -> None:
        """Delete all; a new version begins anew."""
        shutil.rmtree(self._path, ignore_errors=True)
        self._lock.release()
        self._open = False

    def _acquire(self) -> None:
        until = time.monotonic() + _CLEARING
        while True:
            try:
                return self._lock.acquire()
            except LockError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.01)

    def _clear(self, path: Path) -> None:
        """Delete the folder of a lock that nobody holds."""
        lock = self._beside(path)
        with suppress(LockError), lock:
            if lock.held:  # where there are no locks, nobody knows
                shutil.rmtree(path.with_name(path.name.removesuffix(_LOCK)), ignore_errors=True)

    @staticmethod
    def _beside(path: Path) -> FileLock:
        return FileLock(path, f"the folder of {path}", "set another vllm_sync_dir")
