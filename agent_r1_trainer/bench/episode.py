"""One episode of a benchmark: an env, an agent, a record."""

from __future__ import annotations

import time
from typing import Any

import gymnasium

from agent_r1_trainer.bench.agents.base import Agent, Reply
from agent_r1_trainer.bench.records import EpisodeRecord, Job
from agent_r1_trainer.environments.contract import CheckedEnv, error_text, verdict

__all__ = ["play_episode"]


def play_episode(env: gymnasium.Env[Any, Any], agent: Agent, job: Job) -> EpisodeRecord:
    """Play one episode to its end.

    Whatever the env or the agent raises, or what the env returns against its contract, ends this episode and is kept in
    the record; the env should then be replaced.
    """
    env = CheckedEnv(env)
    started = time.perf_counter()
    steps: list[dict[str, Any]] = []
    info: dict[str, Any] = {}
    protocol: dict[str, Any] = {}
    stop, error = "failed", ""
    try:
        options = None if job.task is None else {"task": job.task}
        observation, info = env.reset(seed=job.seed, options=options)
        protocol = info.get("protocol", {})
        act = agent.begin(env, info, job.seed)
        while stop == "failed":
            action = act(observation, info)
            observation, reward, terminated, truncated, info = env.step(action)
            steps.append(_step(action, reward, observation, info))
            if terminated:  # first: a turn limit may be reported together with a win on the last turn
                stop = "terminated"
            elif truncated:
                stop = "turn_limit"
    except Exception as problem:  # whatever a user's env or a remote model raises
        error = error_text(problem)
    total = sum(step["reward"] for step in steps)
    success, score = verdict(info, terminated=stop == "terminated", total=total)
    return EpisodeRecord(
        episode=job.episode,
        task_id=info.get("task_id", "" if job.task is None else str(job.task)),
        seed=job.seed,
        success=success and not error,
        score=0.0 if error else score,
        reward=total,
        turns=len(steps),
        invalid=sum("invalid" in step for step in steps),
        stop=stop,
        seconds=round(time.perf_counter() - started, 4),
        error=error,
        reward_info=info.get("reward_info", {}),
        protocol=protocol,
        steps=steps,
    )


def _step(action: str, reward: float, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
    step: dict[str, Any] = {"action": str(action), "reward": reward, "observation": _said(observation)}
    if "invalid_action" in info:
        step["invalid"] = info["invalid_action"]
    if isinstance(action, Reply):
        step["usage"] = action.usage
    return step


def _said(observation: Any) -> str:
    """Return what the env said last: the observation, or the last message of a conversation."""
    if isinstance(observation, (list, tuple)) and observation and isinstance(observation[-1], dict):
        return str(observation[-1].get("content", ""))
    return str(observation)
