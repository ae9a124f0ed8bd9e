"""One rollout in which no episode waits for another one's environment."""

from __future__ import annotations

import itertools
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agent_r1_trainer.environments.contract import error_text
from agent_r1_trainer.flows.base import Assignment
from agent_r1_trainer.flows.crew import Crew
from agent_r1_trainer.flows.failures import FailurePolicy, note_closing
from agent_r1_trainer.flows.player import Turn
from agent_r1_trainer.flows.progress import RolloutProgress
from agent_r1_trainer.flows.workers import Report, Worker, overdue, seconds_for
from agent_r1_trainer.generation.adapters import BlockingGenerator
from agent_r1_trainer.generation.protocol import Generation, GenerationError, Generator, SamplingParams, joined
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["Rollout"]

_LONGEST_WAIT = 3600.0  # seconds in one go; a queue takes no longer waits than its system's clock
_TICKETS = itertools.count()


class _Reply(NamedTuple):
    """A reply that was asked for is there, or will never be."""

    ticket: int
    future: Future[Generation]


@dataclass(slots=True, eq=False)
class _Live:
    """An episode under way.

    Attributes:
        index: Of its assignment.
        worker: Who plays it.
        names: Of the environments that the worker has built.
        attempt: How often it was played again.
        turns: Replies so far.
        ticket: Of what it waits for.
        act: What its worker does; empty while it waits for a reply.
        deadline: When the worker must be done, by `time.monotonic`.
        since: When it began to wait, by `time.perf_counter`.
        turn: What it says next, while it waits for a reply.
        reply: That reply, where the generator is asked by each episode.
        failed: What has become of it, while the environment that failed is closed.
        lost: Its worker was given up.
    """

    index: int
    worker: Worker
    names: set[str]
    attempt: int = 0
    turns: int = 0
    ticket: int = -1
    act: str = ""
    deadline: float = math.inf
    since: float = 0.0
    turn: Turn | None = None
    reply: Future[Generation] | None = field(default=None, repr=False)
    failed: Trajectory | None = None
    lost: bool = False


class Rollout:
    """Waits for whatever comes next, a worker's report or a reply, and acts on it.

    Everything here happens in the thread that calls `play`, the calls of a plain generator too: what belongs to a
    thread (autocast, the current device) is as the caller has set it.

    Args:
        assignments: The episodes.
        generator: Is asked for all live episodes together; a `BlockingGenerator` for each by itself.
        sampling: How replies are sampled.
        policy_version: Recorded on every step.
        crew: Whose workers play.
        limit: Most episodes at a time.
        timeout: Seconds for a reset, a step or a close; None waits for ever.
        failures: What becomes of an episode whose environment failed.
        progress: Kept up to date.
        tell: Called when it has changed.

    Attributes:
        generating: Seconds in which something was generated and nothing else was to do.
    """

    def __init__(
        self,
        assignments: Sequence[Assignment],
        generator: Generator,
        sampling: SamplingParams,
        *,
        policy_version: int,
        crew: Crew,
        limit: int,
        timeout: float | None,
        failures: FailurePolicy,
        progress: RolloutProgress,
        tell: Callable[[], None],
    ) -> None:
        self._assignments = list(assignments)
        self._generator = generator
        self._sampling = sampling
        self._policy_version = policy_version
        self._crew = crew
        self._limit = limit
        self._timeout = timeout
        self._failures = failures
        self._progress = progress
        self._tell = tell
        self._waiting = deque(range(len(assignments)))
        self._live: dict[int, _Live] = {}  # by ticket
        self._done: dict[int, Trajectory] = {}
        self.generating = 0.0

    def play(self) -> list[Trajectory]:
        """Play all episodes.

        Raises:
            EpisodeFailedError: See `FailurePolicy.check`.
            HungThreadsError: See `Crew.lose`.
        """
        while self._waiting or self._live:
            while self._waiting and len(self._live) < self._limit:
                index = self._waiting.popleft()
                self._play(_Live(index, *self._crew.hire(self._assignments[index].env)))
            if not isinstance(self._generator, BlockingGenerator) and all(e.turn for e in self._live.values()):
                self._answer_all()
            else:
                self._wait()
        return [self._done[index] for index in range(len(self._assignments))]

    def give_up(self, *, interrupted: bool) -> None:
        """Give up the episodes that are under way; a call that has no deadline is not waited for by itself.

        Args:
            interrupted: See `Crew.leave`.
        """
        call = int(self._timeout is not None)
        for episode in self._live.values():
            if episode.reply is not None:
                episode.reply.cancel()
            self._crew.leave(episode.worker, call + len(episode.names), interrupted=interrupted)
        self._live.clear()

    # Asking

    def _play(self, episode: _Live) -> None:
        """Begin an attempt at an episode, in an environment that is there already if it can be."""
        episode.turns, episode.failed = 0, None
        name = self._assignments[episode.index].env
        episode.names.add(name)
        self._call(episode, "prepare", name)

    def _call(self, episode: _Live, act: str, *arguments: Any) -> None:
        """Have the worker of an episode do something."""
        self._await(episode)
        episode.act = act
        episode.deadline = time.monotonic() + seconds_for(act, self._timeout)
        episode.worker.call(episode.ticket, act, *arguments)

    def _ask(self, episode: _Live, turn: Turn) -> None:
        """Have an episode wait for its next reply."""
        self._await(episode)
        episode.turn = turn
        if isinstance(self._generator, BlockingGenerator):
            assignment, ticket, reports = self._assignments[episode.index], episode.ticket, self._crew.reports
            key = (self._policy_version, assignment.env, assignment.seed, assignment.sample, episode.index)
            seed = assignment.reply_seed(episode.turns)
            episode.reply = self._generator.submit(turn.prompt_ids, turn.sampling, seed, episode=key)
            episode.reply.add_done_callback(lambda future: reports.put(_Reply(ticket, future)))

    def _await(self, episode: _Live) -> None:
        """Have an episode wait for something new."""
        episode.ticket, episode.since = next(_TICKETS), time.perf_counter()
        episode.act, episode.deadline, episode.turn, episode.reply = "", math.inf, None, None
        self._live[episode.ticket] = episode

    def _answer_all(self) -> None:
        """Have all live episodes answered in one call, in the order of their assignments."""
        episodes = sorted(self._live.values(), key=lambda episode: episode.index)
        turns = [episode.turn for episode in episodes if episode.turn is not None]
        seeds = [self._assignments[episode.index].reply_seed(episode.turns) for episode in episodes]
        started = time.perf_counter()
        replies = self._generator.generate(
            [turn.prompt_ids for turn in turns], joined([turn.sampling for turn in turns]), seeds
        )
        now = time.perf_counter()
        self.generating += now - started
        for episode, reply in zip(episodes, replies, strict=True):
            del self._live[episode.ticket]
            self._progress.generation += now - episode.since
            self._take(episode, reply)

    # Waiting

    def _wait(self) -> None:
        """Wait for the next thing to happen, and act on it."""
        started = time.perf_counter()
        nearest = min(episode.deadline for episode in self._live.values())
        replies_pending = any(episode.reply is not None for episode in self._live.values())
        try:
            event = self._crew.reports.get(timeout=min(max(nearest - time.monotonic(), 0.0), _LONGEST_WAIT))
        except queue.Empty:
            self._expire()
            return
        finally:
            self.generating += (time.perf_counter() - started) * replies_pending
        episode = self._live.pop(event.ticket, None)
        if episode is None:
            if isinstance(event, Report) and event.error is None:
                self._progress.late += 1
            return
        try:
            if isinstance(event, Report):
                self._on_report(episode, event)
            else:
                self._on_reply(episode, event.future)
        except BaseException as error:
            if not episode.lost:
                interrupted = isinstance(error, KeyboardInterrupt)
                self._crew.leave(episode.worker, len(episode.names), interrupted=interrupted)
            raise
        self._tell()

    def _expire(self) -> None:
        """Give up the episodes whose workers had their time."""
        now = time.monotonic()
        for ticket, episode in list(self._live.items()):
            if episode.deadline <= now:
                del self._live[ticket]
                self._progress.timeouts += 1
                self._progress.environment += time.perf_counter() - episode.since
                error = TimeoutError(overdue(episode.act, self._timeout))
                self._on_loss(episode, error_text(error), hung=True)
        self._tell()

    def _on_report(self, episode: _Live, report: Report) -> None:
        self._progress.environment += time.perf_counter() - episode.since
        if report.error is not None:
            self._progress.crashes += 1
            self._on_loss(episode, error_text(report.error), hung=False)
        elif episode.act == "prepare":
            assignment = self._assignments[episode.index]
            self._call(episode, "begin", assignment, self._sampling, self._policy_version)
        elif episode.failed is not None:
            note_closing(episode.failed, report.outcome)
            self._on_end(episode, episode.failed, environment=True)
        elif report.outcome.spoilt:
            episode.failed = report.outcome.trajectory
            self._call(episode, "discard")
        elif report.outcome.trajectory is not None:
            self._on_end(episode, report.outcome.trajectory, environment=False)
        else:
            self._ask(episode, report.outcome)

    def _on_reply(self, episode: _Live, future: Future[Generation]) -> None:
        self._progress.generation += time.perf_counter() - episode.since
        try:
            self._take(episode, future.result())
        except GenerationError as error:
            self._take(episode, Generation.lost(error))
        except CancelledError as error:
            raise RuntimeError("the generator was closed while episodes waited for its replies") from error

    def _take(self, episode: _Live, reply: Generation) -> None:
        if reply.error:
            self._progress.lost_replies += 1
        else:
            episode.turns += 1
            self._progress.turns += 1
            self._progress.tokens += len(reply.ids)
        self._call(episode, "step", reply)

    def _on_end(self, episode: _Live, trajectory: Trajectory, *, environment: bool) -> None:
        """Take an episode that has ended, or play it again if it failed and the environment is to blame."""
        if self._failures.check(trajectory, episode.attempt, environment=environment):
            self._progress.retried += 1
            episode.attempt += 1
            self._play(episode)
        else:
            self._crew.release(episode.worker, episode.names)
            self._close(episode, trajectory)

    def _on_loss(self, episode: _Live, error: str, *, hung: bool) -> None:
        """Take an episode whose worker is lost, or have another one play it again."""
        episode.lost = True
        self._crew.lose(episode.worker, hung=hung)
        self._progress.hung_threads = self._crew.hung_threads
        assignment, trajectory = self._assignments[episode.index], episode.failed
        if trajectory is None:
            trajectory = assignment.failed("" if assignment.task is None else str(assignment.task), error)
        else:
            note_closing(trajectory, error)
        if self._failures.check(trajectory, episode.attempt):
            self._progress.retried += 1
            self._play(_Live(episode.index, *self._crew.hire(assignment.env), attempt=episode.attempt + 1))
        else:
            self._close(episode, trajectory)

    def _close(self, episode: _Live, trajectory: Trajectory) -> None:
        self._done[episode.index] = trajectory
        self._progress.done += 1
        self._progress.masked += trajectory.masked
