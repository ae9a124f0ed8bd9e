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

    That happens in the thread that asks, or, where there is an end to the waiting, in one of its own, so that what is
    looked at there must not need the main thread.

    Args:
        make_shelf: Of environments that are looked at; each thread has its own.
        crew: Takes a thread that does not come back.
        timeout: See `seconds_for`; None waits for ever.
    """

    def __init__(self, make_shelf: Callable[[], EnvShelf], crew: Crew, timeout: float | None) -> None:
        self._make_shelf, self._crew, self._timeout = make_shelf, crew, timeout
        self._shelf = make_shelf()
        self._worker: ThreadWorker | None = None
        self._reports: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def look(self, name: str, at: Callable[[CheckedEnv], T]) -> T:
        """What is seen of an environment of that name.

        Raises:
            TimeoutError: It took too long, building it included.
            Exception: What building it raised.
        """
        if self._timeout is None:
            return at(self._shelf.idle(name))
        if self._worker is None:
            self._shelf, self._reports = self._make_shelf(), queue.SimpleQueue()
            self._worker = ThreadWorker(_Looker(self._shelf), self._reports)
        worker = self._worker
        try:
            worker.call(0, "look", name, at)
            report: Report = self._reports.get(timeout=seconds_for("look", self._timeout))
        except queue.Empty:
            self._worker = None
            self._crew.abandon(worker)
            reason = overdue("look", self._timeout)
            which = f"the environment {name!r}" if name else "the environment"
            raise TimeoutError(f"{which} cannot be looked at: its {reason}") from None
        except BaseException as error:  # Ctrl-C: what it still answers is no answer to the next question
            self._worker = None
            self._crew.leave(worker, 1 + len(self._shelf), interrupted=isinstance(error, KeyboardInterrupt))
            raise
        if report.error is not None:
            if "thread" in str(report.error):
                report.error.add_note(
                    "With env_timeout an environment is built in a thread to be looked at before the run. One that "
                    "needs the main thread (signal.signal, say) can do that in its reset with env_workers='processes', "
                    "where each has a main thread of its own; or leave env_timeout out"
                )
            raise report.error
        return report.outcome

    def close(self) -> None:
        """Close the environments; new ones are built where they are needed."""
        worker, self._worker = self._worker, None
        if worker is None:
            self._shelf.close()
            return
        worker.stop()
        ended = False
        try:
            ended = worker.join(seconds_for("close", self._timeout) * max(len(self._shelf), 1))
        finally:
            if not ended:
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
