"""Looking at environments before any of them is played."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, TypeVar

from agent_r1_trainer.environments.contract import CheckedEnv
from agent_r1_trainer.flows.crew import Crew
from agent_r1_trainer.flows.env_shelf import EnvShelf
from agent_r1_trainer.flows.workers import Report, ThreadWorker, overdue, seconds_for

__all__ = ["Lookout"]

T = TypeVar("T")


class Lookout:
    """Builds an environment of each name, to be looked at only, and closes it.

    That happens in the thread that asks, or, where there is an end to the waiting, in one of its own.

    Args:
        shelf: Of environments that are looked at.
        crew: Takes a thread that does not come back.
        timeout: See `seconds_for`; None waits for ever.
    """

    def __init__(self, shelf: EnvShelf, crew: Crew, timeout: float | None) -> None:
        self._shelf, self._looker, self._crew, self._timeout = shelf, _Looker(shelf), crew, timeout
        self._worker: ThreadWorker | None = None
        self._reports: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def look(self, name: str, at: Callable[[CheckedEnv], T]) -> T:
        """What is seen of an environment of that name.

        Raises:
            TimeoutError: It took too long, building it included.
            Exception: What building it raised.
        """
        if self._timeout is None:
            return self._looker.look(name, at)
        if self._worker is None:
            self._reports = queue.SimpleQueue()
            self._worker = ThreadWorker(self._looker, self._reports)
        self._worker.call(0, "look", name, at)
        try:
            report: Report = self._reports.get(timeout=seconds_for("look", self._timeout))
        except queue.Empty:
            worker, self._worker = self._worker, None
            self._crew.abandon(worker)
            reason = overdue("look", self._timeout).removeprefix("TimeoutError: ")
            which = f"the environment {name!r}" if name else "the environment"
            raise TimeoutError(f"{which} cannot be looked at: its {reason}") from None
        if report.error is not None:
            raise report.error
        return report.outcome

    def close(self) -> None:
        """Close the environments; new ones are built where they are needed."""
        if self._timeout is None:
            self._looker.close()
        worker, self._worker = self._worker, None
        if worker is None:
            return
        seconds = seconds_for("close", self._timeout) * max(len(self._shelf), 1)
        worker.stop()
        if not worker.join(seconds):
            self._crew.abandon(worker)


class _Looker:
    """What is done in the thread that looks."""

    def __init__(self, shelf: EnvShelf) -> None:
        self._shelf = shelf

    def look(self, name: str, at: Callable[[CheckedEnv], T]) -> T:
        return at(self._shelf.idle(name))

    def close(self) -> None:
        self._shelf.close()

    def kill(self) -> None:
        pass
