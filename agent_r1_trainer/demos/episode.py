"""One episode of the environment's own expert, as rows to train on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
from agent_r1_wrappers import reply_for

from agent_r1_envs.spaces import as_messages
from agent_r1_trainer.bench.episode import Job
from agent_r1_trainer.demos.file import DemoError
from agent_r1_trainer.environments.contract import CheckedEnv, verdict
from agent_r1_trainer.prompts.builder import continues
from agent_r1_trainer.prompts.rendering import Message

__all__ = ["Demonstration", "demonstrate"]


@dataclass(frozen=True)
class Demonstration:
    """An episode.

    Attributes:
        rows: One a turn, JSON data. `prompt` and `completion` are chat messages; `tools` (a JSON text) and
            `chat_template_kwargs` are there where the environment has some; `env`, `task_id`, `episode`, `turn`,
            `turns`, `continues`, `success` and `score` say where a row is from. `continues` is true where the prompt
            is the one before, the reply to it and new messages.
        success: Whether the task was solved.
    """

    rows: list[dict[str, Any]]
    success: bool


def demonstrate(env: gymnasium.Env[Any, Any], name: str, job: Job) -> Demonstration:
    """Let the expert play one episode.

    Replies are written by the environment's action formats, so that they are read back as the expert's commands. Where
    the expert knows nothing to do the episode ends, unsolved.

    Args:
        env: Speaks chat messages, or text, which becomes one user message.
        name: Of the environment, for the rows.
        job: The task and the seed.

    Raises:
        DemoError: The environment has no `expert_action`, or token ids as observations.
        ContractError: It returned what nobody can use.
    """
    env = CheckedEnv(env)
    expert = getattr(env.unwrapped, "expert_action", None)
    if expert is None:
        raise DemoError(f"{type(env.unwrapped).__name__} has no expert_action(), which demonstrations come from")
    observation, info = env.reset(seed=job.seed, options=None if job.task is None else {"task": job.task})
    common = _template(info)
    task_id = info.get("task_id", "" if job.task is None else str(job.task))
    turns: list[tuple[list[Message], str, bool]] = []
    total, over, terminated = 0.0, False, False
    while not over:
        command = expert()
        if command is None:
            break
        messages, reply = as_messages(observation), reply_for(env, str(command))
        if messages is None:
            raise DemoError(f"demonstrations are made of text or chat messages, not of {type(observation).__name__}")
        grown = bool(turns) and continues(turns[-1][0], messages, turns[-1][1])
        turns.append((messages, reply, grown))
        observation, reward, terminated, truncated, info = env.step(reply)
        total += reward
        over = terminated or truncated
    success, score = verdict(info, terminated=terminated, total=total)
    rows = [
        {
            "prompt": [dict(message) for message in messages],
            "completion": [{"role": "assistant", "content": reply}],
            **common,
            "env": name,
            "task_id": task_id,
            "episode": job.episode,
            "turn": turn,
            "turns": len(turns),
            "continues": grown,
            "success": success,
            "score": score,
        }
        for turn, (messages, reply, grown) in enumerate(turns)
    ]
    return Demonstration(rows, success)


def _template(info: Mapping[str, Any]) -> dict[str, Any]:
    """What the chat template gets, as TRL reads it. Tools are a JSON text: no table has columns for their schemas."""
    kwargs = dict(info.get("chat_template_kwargs", {}))
    tools = kwargs.pop("tools", None)
    columns: dict[str, Any] = {}
    if tools:
        columns["tools"] = json.dumps(tools, ensure_ascii=False)
    if kwargs:
        columns["chat_template_kwargs"] = kwargs
    return columns
