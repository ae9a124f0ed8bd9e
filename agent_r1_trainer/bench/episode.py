"""One episode of a benchmark: an env, an agent, and the record that is kept of it, a line of JSON in the run's log."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import gymnasium

from agent_r1_trainer.bench.agents import Agent, Reply
from agent_r1_trainer.environments.contract import CheckedEnv, error_text, verdict

__all__ = ["EpisodeRecord", "Job", "LogError", "PlayedTurn", "play_episode", "read_log"]


@dataclass(frozen=True, slots=True)
class Job:
    """An episode to play.

    Attributes:
        episode: Its number in the run, from 0.
        task: Position of its task in the split; None for an env without a panel of tasks.
        seed: Seed of its reset and of the agent's choices; a function of the run's seed and ``episode``.
    """

    episode: int
    task: int | None
    seed: int


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """A turn of the transcript.

    Attributes:
        action: The reply; a log calls it so.
        reward: For it.
        observation: The answer; None where it is not kept.
        invalid: Why the env refused the reply; None if it did not.
        usage: Counts of a model's tokens; None where there is no model.
    """

    action: str
    reward: float
    observation: str | None = None
    invalid: str | None = None
    usage: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the turn as JSON data, without what is None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class EpisodeRecord:
    """The outcome of one episode.

    Attributes:
        episode: Number of the episode.
        task_id: Id of its task, as the env reports it.
        seed: The seed it was played with.
        success: Whether the benchmark counts the task as solved.
        score: The benchmark's metric, from 0 to 1.
        reward: Sum of the rewards.
        turns: Number of replies.
        invalid: Number of replies that the env refused.
        stop: ``"terminated"``, ``"turn_limit"``, ``"prompt_too_long"`` or ``"failed"``.
        seconds: Wall-clock time.
        error: Why it failed; ``""`` when it did not.
        reward_info: Components of the score at the end.
        protocol: What makes the score comparable, as the env reports it at reset; empty if it does not.
        steps: The transcript.
    """

    episode: int
    task_id: str
    seed: int
    success: bool
    score: float
    reward: float
    turns: int
    invalid: int
    stop: str
    seconds: float = 0.0
    error: str = ""
    reward_info: dict[str, float] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    steps: list[PlayedTurn] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether the env or the agent broke down, so that the episode says nothing about the agent's skill."""
        return bool(self.error)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return {**asdict(self), "steps": [step.to_json() for step in self.steps]}

    @classmethod
    def from_json(cls, row: Any) -> EpisodeRecord:
        """Read a record; unknown keys are left out, so that later versions may add some.

        Raises:
            ValueError: The row is no record.
        """
        known = _known(cls, row)
        try:
            steps = [PlayedTurn(**_known(PlayedTurn, step)) for step in known.get("steps", ())]
            return cls(**{**known, "steps": steps})
        except TypeError as error:
            raise ValueError(str(error)) from error


def _known(cls: type[EpisodeRecord | PlayedTurn], row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {type(row).__name__}")
    return {f.name: row[f.name] for f in fields(cls) if f.name in row}


class LogError(RuntimeError):
    """The log cannot be read or written; the message names the file and the way out."""


def read_log(path: Path) -> list[EpisodeRecord]:
    """Return the records of a log in order of episode; the last line of an episode counts.

    A torn last line, which a killed run leaves, is ignored.

    Raises:
        LogError: Another line is damaged.
    """
    if not path.exists():
        return []
    records: dict[int, EpisodeRecord] = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line break is empty or torn
        try:
            record = EpisodeRecord.from_json(json.loads(line))
        except ValueError as error:
            raise LogError(f"{path}, line {number}: not the record of an episode: {error}; remove the line") from error
        records[record.episode] = record
    return [records[episode] for episode in sorted(records)]


def play_episode(env: gymnasium.Env[Any, Any], agent: Agent, job: Job) -> EpisodeRecord:
    """Play one episode to its end.

    Whatever the env or the agent raises, or what the env returns against its contract, ends this episode and is kept in
    the record; the env should then be replaced.
    """
    env = CheckedEnv(env)
    started = time.perf_counter()
    steps: list[PlayedTurn] = []
    info: dict[str, Any] = {}
    protocol: dict[str, Any] = {}
    stop, error = "failed", ""
    try:
        options = None if job.task is None else {"task": job.task}
        observation, info = env.reset(seed=job.seed, options=options)
        protocol = info.get("protocol", {})
        act = agent.begin(env, info, job.seed)
        while stop == "failed":
            reply = act(observation, info)
            observation, reward, terminated, truncated, info = env.step(reply)
            steps.append(_turn(reply, reward, observation, info))
            if terminated:  # first: a turn limit may be reported together with a win on the last turn
                stop = "terminated"
            elif truncated:
                stop = "turn_limit"
    except Exception as problem:  # whatever a user's env or a remote model raises
        error = error_text(problem)
    total = sum(step.reward for step in steps)
    success, score = verdict(info, terminated=stop == "terminated", total=total)
    return EpisodeRecord(
        episode=job.episode,
        task_id=info.get("task_id", "" if job.task is None else str(job.task)),
        seed=job.seed,
        success=success and not error,
        score=0.0 if error else score,
        reward=total,
        turns=len(steps),
        invalid=sum(step.invalid is not None for step in steps),
        stop=stop,
        seconds=round(time.perf_counter() - started, 4),
        error=error,
        reward_info=info.get("reward_info", {}),
        protocol=protocol,
        steps=steps,
    )


def _turn(reply: str, reward: float, observation: Any, info: dict[str, Any]) -> PlayedTurn:
    usage = reply.usage if isinstance(reply, Reply) else None
    return PlayedTurn(str(reply), reward, _said(observation), info.get("invalid_action"), usage)


def _said(observation: Any) -> str:
    """Return what the env said last: the observation, or the last message of a conversation."""
    if isinstance(observation, (list, tuple)) and observation and isinstance(observation[-1], dict):
        return str(observation[-1].get("content", ""))
    return str(observation)
