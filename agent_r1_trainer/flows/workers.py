"""Workers: each has one player, does one thing at a time for it, and reports when it is done.

A worker keeps its player's environments to its own thread from construction to close, so an environment that may only
be used where it was made (a connection to SQLite, a browser) works.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

__all__ = ["InlineWorker", "Played", "Report", "ThreadWorker", "Worker", "overdue", "seconds_for"]

_CONSTRUCTION = 600.0  # seconds: a first environment may read gigabytes of data
_WORDS = {"begin": "reset()", "step": "step()", "discard": "close()", "close": "close()"}


def seconds_for(act: str, timeout: float | None) -> float:
    """How long a worker may take for something, where `env_timeout` is this; None waits for ever."""
    seconds = math.inf if timeout is None else timeout
    return seconds if act in _WORDS else max(seconds, _CONSTRUCTION)


def overdue(act: str, timeout: float | None) -> str:
    """What is said of a worker that has had its time, as a `TimeoutError` says it."""
    if act in _WORDS:
        return f"{_WORDS[act]} took more than env_timeout={timeout:g} s"
    return f"construction took more than {seconds_for(act, timeout):g} s"


class Report(NamedTuple):
    """The end of a call.

    Attributes:
        ticket: Of the call.
        outcome: What it returned.
        error: What it raised, or None.
    """

    ticket: int
    outcome: Any
    error: BaseException | None


class Played(Protocol):
    """What a worker works for: a player, or somebody else with environments. It calls any method by its name."""

    def close(self) -> None:
        """Close the environments."""

    def kill(self) -> None:
        """End at once what can be ended from outside; from any thread."""


class Worker(Protocol):
    """Something that calls a player; see `ThreadWorker`."""

    def call(self, ticket: int, act: str, *arguments: Any) -> None:
        """Begin a call, whose end is reported under this ticket."""

    def stop(self) -> None:
        """Close the environments once the call that is under way has ended, and end; it takes no more calls."""

    def join(self, seconds: float | None) -> bool:
        """Wait until it has ended. Returns whether it has."""

    def kill(self) -> None:
        """End it now, as far as that can be done from outside."""


@dataclass(frozen=True, slots=True)
class InlineWorker:
    """Calls a player at once, in the thread that asks.

    Attributes:
        player: Whom it calls.
        reports: Where the ends of calls go.
    """

    player: Played
    reports: SimpleQueue[Any]

    def call(self, ticket: int, act: str, *arguments: Any) -> None:
        """See `Worker.call`."""
        self.reports.put(Report(ticket, getattr(self.player, act)(*arguments), None))

    def stop(self) -> None:
        """See `Worker.stop`."""
        self.player.close()

    def join(self, seconds: float | None) -> bool:
        """It has ended as soon as it has stopped."""
        return True

    def kill(self) -> None:
        """Nothing can be under way."""


class ThreadWorker:
    """Calls a player in a thread of its own; where the player is remote, it is that which waits for the answers.

    The thread is a daemon: one that never comes back from an environment does not keep the program from ending.

    Args:
        player: Whom it calls.
        reports: Where the ends of calls go.
    """

    def __init__(self, player: Played, reports: SimpleQueue[Any]) -> None:
        self._player = player
        self._calls: SimpleQueue[tuple[int, str, tuple[Any, ...]] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=_work, args=(player, self._calls, reports), name="agent-r1-environment", daemon=True
        )
        self._thread.start()

    def call(self, ticket: int, act: str, *arguments: Any) -> None:
        """See `Worker.call`."""
        self._calls.put((ticket, act, arguments))

    def stop(self) -> None:
        """See `Worker.stop`."""
        self._calls.put(None)

    def join(self, seconds: float | None) -> bool:
        """See `Worker.join`."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def kill(self) -> None:
        """Kill the player if it is remote; a thread cannot be killed."""
        self._player.kill()


def _work(
    player: Played, calls: SimpleQueue[tuple[int, str, tuple[Any, ...]] | None], reports: SimpleQueue[Any]
) -> None:
    try:
        while (call := calls.get()) is not None:
            ticket, act, arguments = call
            outcome, error = None, None
            try:
                outcome = getattr(player, act)(*arguments)
            except BaseException as raised:  # a `sys.exit` of an environment too is a failure of its episode
                error = raised
            reports.put(Report(ticket, outcome, error))
            del call, arguments, outcome, error
    finally:
        player.close()
