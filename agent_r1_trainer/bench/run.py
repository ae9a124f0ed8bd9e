"""A benchmark run from its beginning, or from where it stopped, to its end.

Several episodes are played at a time, by workers that have an env each.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import agent_r1_wrappers  # noqa: F401  (registers the ids, recipes included)
import gymnasium
from gymnasium.envs.registration import EnvSpec

from agent_r1_trainer.bench.agents import Agent
from agent_r1_trainer.bench.episode import EpisodeRecord, Job, play_episode, read_log
from agent_r1_trainer.bench.manifest import CHOICE, claim_folder, plays_choice
from agent_r1_trainer.bench.report import Summary, summarize, write_summary
from agent_r1_trainer.bench.sampling import LOCAL
from agent_r1_trainer.bench.settings import BenchSettings, env_arguments
from agent_r1_trainer.curriculum.choice import choose_tasks
from agent_r1_trainer.environments.contract import close_quietly
from agent_r1_trainer.environments.factory import EnvFactory, Panel, UnbuiltEnv, panel_of
from agent_r1_trainer.extras import explain_missing
from agent_r1_trainer.files import JsonLines
from agent_r1_trainer.model_folders import model_fingerprint
from agent_r1_trainer.seeds import derive_seed

__all__ = ["BenchError", "BenchRun", "play_all"]

_HOPELESS = 8  # a run that begins with so many failures stops
MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


class BenchError(RuntimeError):
    """The run cannot go on; the message says why and what to do."""


class BenchRun:
    """A run in a folder: ``manifest.json``, ``episodes.jsonl`` and ``summary.json``.

    Episode ``i`` plays task ``i`` of the split (again from the first after the last) with a seed made of the run's
    seed and ``i``, so that the result does not depend on concurrency, interruptions or order. Where fewer episodes are
    asked for than there are tasks, those are played that stand for the split; see ``choose_tasks``.

    Args:
        settings: What to run.
        folder: Where; a run with the same settings that stopped there goes on.

    Raises:
        ManifestError: The folder belongs to another run.
        LogError: The log of the folder is damaged.
        ValueError: The env cannot be built with these settings.
    """

    def __init__(self, settings: BenchSettings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        recipe: Any = settings.sampling.get("recipe", "none")
        kwargs = env_arguments(settings.env, settings.split, settings.env_kwargs)
        self.make_env = EnvFactory(settings.env, kwargs, recipe, settings.max_turns)
        described, self._panel = self._describe()
        self.tasks = None if self._panel is None else len(self._panel)
        self.split: str = described["split"]
        self.log = folder / "episodes.jsonl"
        records = read_log(self.log)
        empty = all(record.failed for record in records)
        self._chosen = empty or plays_choice(folder)
        if self._chosen:
            described["choice"] = CHOICE
        self.resumed = claim_folder(folder, described, empty=empty, noted={"task_ids": self._chosen_ids()})
        self._records = {record.episode: record for record in records}

    @property
    def episodes(self) -> int:
        """How many episodes the run has: those asked for, or one per task.

        Raises:
            BenchError: Neither is known.
        """
        if self.settings.episodes is not None:
            return self.settings.episodes
        if self.tasks is None:
            raise BenchError(f"{self.settings.env} has no panel of tasks: say how many --episodes to play")
        return self.tasks

    @cached_property
    def numbers(self) -> Sequence[int]:
        """The numbers of the episodes, ascending; what is left of whole passes through the tasks is a choice.

        Raises:
            BenchError: How many there are is not known.
        """
        if self._panel is None or not self._chosen:
            return range(self.episodes)
        passes, rest = divmod(self.episodes, len(self._panel))
        whole = passes * len(self._panel)
        if not rest:
            return range(whole)
        return [*range(whole), *(whole + task for task in choose_tasks(self._panel.ids, rest, self._panel.types))]

    @property
    def records(self) -> list[EpisodeRecord]:
        """The records so far, in order of episode, failed ones included."""
        return [self._records[e] for e in self.numbers if e in self._records]

    @property
    def jobs(self) -> list[Job]:
        """What is still to play: episodes without a record, and those that failed."""
        open_ = [e for e in self.numbers if e not in self._records or self._records[e].failed]
        return [Job(e, self._task(e), derive_seed(self.settings.seed, "bench", e)) for e in open_]

    def run(self, on_record: Callable[[EpisodeRecord], None] | None = None) -> Summary:
        """Play what is still to play, writing each record as it is ready.

        Args:
            on_record: Called after each, for a progress bar.

        Raises:
            BenchError: The first episodes all failed, so that something else is wrong.
            KeyboardInterrupt: As usual; what was done is written.
        """
        jobs = self.jobs
        if jobs:
            try:
                self._write(jobs, on_record or (lambda record: None))
            finally:  # Ctrl-C may have come between the file and any other account of it
                self._records = {record.episode: record for record in read_log(self.log)}
        return self.summary()

    def summary(self) -> Summary:
        """Compute the figures of what was played and write them to ``summary.json``.

        Raises:
            ValueError: Nothing was played.
        """
        summary = summarize(self.records)
        write_summary(summary, self.folder / "summary.json")
        return summary

    def _write(self, jobs: Sequence[Job], on_record: Callable[[EpisodeRecord], None]) -> None:
        failures = 0
        with JsonLines(self.log) as log:
            for count, record in enumerate(self._play(jobs), 1):
                log.append(record.to_json())
                on_record(record)
                failures += record.failed
                if failures == count == _HOPELESS < len(jobs):
                    raise BenchError(f"the first {count} episodes failed, the last with {record.error}")

    def _chosen_ids(self) -> list[str] | None:
        """The ids of the tasks that are played, where they are not all of them."""
        if self._panel is None or self.episodes >= len(self._panel):
            return None
        return [self._panel.ids[number] for number in self.numbers]

    def _task(self, episode: int) -> int | None:
        return None if self.tasks is None else episode % self.tasks

    def _play(self, jobs: Sequence[Job]) -> Iterator[EpisodeRecord]:
        spec, settings = self.settings.agent, self.settings
        if spec.kind in LOCAL:
            try:
                from agent_r1_trainer.bench.local import play_local
            except ModuleNotFoundError as error:
                raise explain_missing(error, f"the agent {spec.kind}:MODEL") from error
            return play_local(
                self.make_env, spec.model, jobs, settings.concurrency, settings.sampling, vllm=spec.kind == "vllm"
            )
        return play_all(self.make_env, self._agent(), jobs, settings.concurrency)

    def _agent(self) -> Any:
        from agent_r1_trainer.bench.agents import make_agent

        return make_agent(self.settings.agent, self.settings.sampling, self.settings.transport)

    def _describe(self) -> tuple[dict[str, Any], Panel | None]:
        """Return what decides the episodes, and the tasks."""
        env = self.make_env()
        try:
            panel = panel_of(env)
            described = {
                "env": self.settings.env,
                "spec": _spec_data(env.unwrapped.spec),
                "max_turns": None if env.spec is None else env.spec.max_episode_steps,
                "split": (panel.split if panel is not None else "") or self.settings.split,
                "dataset": "" if panel is None else panel.dataset,
                "panel_hash": "" if panel is None else panel.content_hash,
                "tasks": None if panel is None else len(panel),
                "agent": self.settings.agent.shown,
                "model_hash": model_fingerprint(self.settings.agent.model) if self.settings.agent.kind in LOCAL else "",
                "sampling": dict(self.settings.sampling),
                "seed": self.settings.seed,
            }
        finally:
            env.close()
        return described, panel


def _spec_data(spec: EnvSpec | None) -> Any:
    if spec is None:
        return None
    try:
        return json.loads(spec.to_json())
    except ValueError:  # an entry point that is an object, which Gymnasium cannot write down
        return {"id": spec.id, "entry_point": str(spec.entry_point), "kwargs": repr(dict(spec.kwargs))}


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
