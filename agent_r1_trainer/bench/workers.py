"""Several episodes at a time, each worker with an env of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium

from agent_r1_trainer.bench.agents.base import Agent
from agent_r1_trainer.bench.episode import play_episode
from agent_r1_trainer.bench.records import EpisodeRecord, Job
from agent_r1_trainer.environments.contract import close_quietly
from agent_r1_trainer.environments.factory import UnbuiltEnv

__all__ = ["play_all"]

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


def play_all(make_env: MakeEnv, agent: Agent, jobs: Sequence[Job], concurrency: int) -> Iterator[EpisodeRecord]:
    """Play every job and yield the records as they are ready, in no particular order.

    Threads serve agents that wait for a server. They are daemons: closing the iterator, as Ctrl-C does, does not wait
    for a reply that may never come.
    """
    if concurrency == 1:
        yield from _work(make_env, agent, iter(jobs), threading.Event())
        return
    waiting = _Shared(jobs)
    stop = threading.Event()
    ready: queue.SimpleQueue[EpisodeRecord | BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            for record in _work(make_env, agent, waiting, stop):
                ready.put(record)
            ready.put(None)
        except BaseException as error:  # a fault of the program, not of an episode: raise it where it is seen
            ready.put(error)

    running = min(concurrency, len(jobs))
    for number in range(running):
        threading.Thread(target=run, name=f"bench-{number}", daemon=True).start()
    try:
        while running:
            result = ready.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                running -= 1
            else:
                yield result
    finally:
        stop.set()


def _work(make_env: MakeEnv, agent: Agent, jobs: Iterator[Job], stop: threading.Event) -> Iterator[EpisodeRecord]:
    env: gymnasium.Env[Any, Any] | None = None
    try:
        for job in jobs:
            if stop.is_set():
                break
            if env is None:
                env = _build(make_env)
            record = play_episode(env, agent, job)
            if record.failed:  # its state is in doubt
                close_quietly(env)
                env = None
            yield record
    finally:
        if env is not None:
            close_quietly(env)


def _build(make_env: MakeEnv) -> gymnasium.Env[Any, Any]:
    """Build an env. That it can be built was seen when the run began, so a failure now is one of its episode."""
    try:
        return make_env()
    except Exception as error:
        return UnbuiltEnv(error)


class _Shared(Iterator[Job]):
    """An iterator that several threads may advance."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = iter(jobs)
        self._lock = threading.Lock()

    def __next__(self) -> Job:
        with self._lock:
            return next(self._jobs)
