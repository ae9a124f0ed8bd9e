"""Workers: each has one player, does one thing at a time for it, and reports when it is done.

A worker keeps its player's environments to its own thread from construction to close, so an environment that may only
be used where it was made (a connection to SQLite, a browser) works.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from agent_r1_trainer.flows.player import AnyPlayer

__all__ = ["InlineWorker", "Report", "ThreadWorker", "Worker"]


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

    player: AnyPlayer
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

    def __init__(self, player: AnyPlayer, reports: SimpleQueue[Any]) -> None:
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
    player: AnyPlayer, calls: SimpleQueue[tuple[int, str, tuple[Any, ...]] | None], reports: SimpleQueue[Any]
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
