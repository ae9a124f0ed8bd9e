"""The workers of a loop, and how each kind of them is made and got rid of."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from types import FunctionType, ModuleType
from typing import Any

from agent_r1_trainer.environments.contract import error_text, shown
from agent_r1_trainer.environments.factory import EnvFactory, EnvWorkers, find_spec
from agent_r1_trainer.flows.env_shelf import MakeEnv
from agent_r1_trainer.flows.player import Player, PlayerSetup, RemotePlayer
from agent_r1_trainer.flows.workers import InlineWorker, ThreadWorker, Worker

__all__ = ["Crew", "HungThreadsError", "portable"]

_NOTICED = 2.0  # seconds for a thread to notice that its process was killed
_INTERRUPTED = 5.0  # seconds for each thing that is left to do when somebody has pressed Ctrl-C


class HungThreadsError(RuntimeError):
    """More threads are lost in environments that do not return than a process should carry."""


class Crew:
    """Makes workers, keeps those that are idle, and remembers those that have not ended.

    Args:
        kind: Of the workers.
        setup: What their players are made of; called once, when the first is made.
        max_hung: Most threads that may be left behind.
    """

    def __init__(self, kind: EnvWorkers, setup: Callable[[], PlayerSetup], max_hung: int) -> None:
        self.reports: SimpleQueue[Any] = SimpleQueue()
        """Where the workers report."""
        self._kind = kind
        self._make_setup = setup
        self._setup: PlayerSetup | None = None
        self._pickled = b""
        self._max_hung = max_hung
        self._idle: list[tuple[Worker, set[str]]] = []
        self._leaving: list[tuple[Worker, int, float]] = []  # things left to do, and most seconds for each of them
        self._lost: list[Worker] = []

    def hire(self, name: str) -> tuple[Worker, set[str]]:
        """An idle worker, if possible one that has built an environment of that name, or a new one.

        Returns:
            The worker and the names of the environments that it has built.
        """
        for place, (_, names) in enumerate(self._idle):
            if name in names:
                return self._idle.pop(place)
        return self._idle.pop() if self._idle else (self._make(), set())

    def release(self, worker: Worker, names: set[str]) -> None:
        """Take a worker back whose episode has ended."""
        self._idle.append((worker, names))

    def leave(self, worker: Worker, acts: int, *, interrupted: bool = False) -> None:
        """Have a worker close its environments as soon as it can, and end.

        Args:
            worker: That was hired.
            acts: What it has left to do: a call that is under way, and each environment to close.
            interrupted: By somebody who wants to be waited for no longer than that needs.
        """
        worker.stop()
        most = _INTERRUPTED if interrupted else math.inf
        self._leaving = [*(leaving for leaving in self._leaving if not leaving[0].join(0)), (worker, acts, most)]

    def lose(self, worker: Worker, *, hung: bool) -> None:
        """Give a worker up. A process is killed; a thread ends once it comes back.

        Args:
            worker: That was hired.
            hung: It is in an environment that has not returned.

        Raises:
            HungThreadsError: Too many threads are.
        """
        worker.kill()
        if self._kind == "processes" or not hung:
            self.leave(worker, 1)
        else:
            self.abandon(worker)
            left = self.hung_threads
            if left > self._max_hung:
                raise HungThreadsError(
                    f"{left} threads are left behind in environments that did not return in time, more than "
                    f"{self._max_hung}, and a thread cannot be ended from outside: set env_workers='processes', which "
                    "can, or mend the environment"
                )

    def abandon(self, worker: Worker) -> None:
        """Leave a thread behind in an environment that has not returned; it ends once it comes back."""
        worker.stop()
        self._lost.append(worker)

    @property
    def hung_threads(self) -> int:
        """Threads that were left behind in an environment and have not come back yet."""
        self._lost = [worker for worker in self._lost if not worker.join(0)]
        return len(self._lost)

    def dismiss(self, seconds: float) -> None:
        """Have all workers close their environments and end, side by side.

        Args:
            seconds: For each thing that a worker has left to do; who takes longer is given up.
        """
        for worker, names in self._idle:
            self.leave(worker, len(names))
        self._idle.clear()
        began = time.monotonic()
        killed = []
        leaving = [(worker, began + min(seconds, most) * acts) for worker, acts, most in self._leaving]
        for worker, until in sorted(leaving, key=lambda pair: pair[1]):
            if not _join(worker, until):
                worker.kill()
                killed.append((worker, time.monotonic() + (_NOTICED if self._kind == "processes" else 0)))
        self._leaving = []
        self._lost += [worker for worker, until in killed if not _join(worker, until)]

    def _make(self) -> Worker:
        if self._setup is None:
            self._setup = self._make_setup()
            self._pickled = _pickle(self._setup) if self._kind == "processes" else b""
        if self._kind == "inline":
            return InlineWorker(Player(self._setup), self.reports)
        remote = self._kind == "processes"
        player = RemotePlayer(self._pickled, _modules(self._setup)) if remote else Player(self._setup)
        return ThreadWorker(player, self.reports)


def _join(worker: Worker, until: float) -> bool:
    """Wait for a worker to end until then, by `time.monotonic`. Returns whether it has."""
    return worker.join(max(until - time.monotonic(), 0))


def portable(factories: Mapping[str, MakeEnv]) -> dict[str, MakeEnv]:
    """Factories that can be sent to another process: with the spec in the place of an id, which may be unknown there.

    Raises:
        TypeError: One of them cannot be sent, and what can.
    """
    found: dict[str, MakeEnv] = {}
    for name, factory in factories.items():
        if isinstance(factory, EnvFactory) and isinstance(factory.source, str):
            factory = replace(factory, source=find_spec(factory.source))
        try:
            _pickle(factory)
        except Exception as error:
            whose = f" of {name!r}" if name else ""
            raise TypeError(
                f"env_workers='processes' builds environments in other processes, and what builds those{whose} cannot "
                f"be sent there: {shown(factory)} ({error_text(error)}). Pass an id, an EnvSpec or a function that "
                "stands at the top of a module, with plain data as its arguments; or take env_workers='threads'"
            ) from error
        found[name] = factory
    return found


def _modules(setup: PlayerSetup) -> list[str]:
    """The modules that every process will import: of tokenizer and environments, of what builds those, of the script.

    A process runs the script again as far as it is not guarded. One that imports PyTorch would have each do so. Of
    the script's names only modules, classes and functions count: what it has made itself, processes do not make again.
    """
    found: list[Any] = [type(setup.tokenizer).__module__, *setup.modules]
    for factory in setup.factories.values():
        source: Any = factory.source if isinstance(factory, EnvFactory) else factory
        source = getattr(source, "entry_point", getattr(source, "func", source))  # of a spec, of a partial
        found.append(source.partition(":")[0] if isinstance(source, str) else source.__module__)
    for value in vars(sys.modules["__main__"]).values():
        if isinstance(value, (ModuleType, FunctionType, type)):
            found.append(value.__name__ if isinstance(value, ModuleType) else value.__module__)
    names = dict.fromkeys(name for name in found if isinstance(name, str))
    return [name for name in names if name in sys.modules and name != "__main__"]


def _pickle(value: Any) -> bytes:
    return bytes(ForkingPickler.dumps(value))
