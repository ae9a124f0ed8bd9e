"""What every process makes for itself, such as connections: they must not be shared across a fork."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["PerProcess"]

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Holds one thing, which another process, forked or sent a pickle, makes anew where it needs it.

    Attributes:
        made: The thing, if there is one; in a forked process it may still be the parent's.
    """

    def __init__(self) -> None:
        self.made: T | None = None
        self._process = 0

    def get(self, make: Callable[[], T]) -> T:
        """Return this process's own; made now, if there is none."""
        if self.made is None or self._process != os.getpid():
            self.made, self._process = make(), os.getpid()
        return self.made

    def take(self) -> T | None:
        """Forget it, and return it for the caller to close; None where there is none of this process."""
        made, self.made = self.made, None
        return made if self._process == os.getpid() else None

    def __getstate__(self) -> dict[str, Any]:
        return {"made": None, "_process": 0}
