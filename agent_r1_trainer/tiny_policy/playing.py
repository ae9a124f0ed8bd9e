"""A tiny policy plays its panel, through the loop that training uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import gymnasium

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from agent_r1_trainer.trajectory import Trajectory

__all__ = ["play_tasks", "success_rate"]


def play_tasks(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    make_env: Callable[[str], gymnasium.Env],
    max_reply: int,
    tasks: int,
    split: str = "test",
    temperature: float = 1.0,
    seed: int = 0,
) -> list[Trajectory]:
    """Let a policy play the first `tasks` tasks of a split.

    Args:
        model: The policy.
        tokenizer: Its tokenizer.
        make_env: Builds the environment of a split.
        max_reply: Longest reply, in tokens.
        tasks: How many.
        split: Of the panel.
        temperature: 0 is greedy.
        seed: Of the sampling.
    """
    from agent_r1_trainer.flows import AgentEnvLoop, Assignment
    from agent_r1_trainer.generation import SamplingParams, TransformersGenerator
    from agent_r1_trainer.seeds import derive_seed

    flow = AgentEnvLoop(lambda: make_env(split), tokenizer, max_prompt_length=1024)
    sampling = SamplingParams(max_reply, (tokenizer.eos_token_id,), temperature=temperature)
    assignments = [Assignment(task, derive_seed(seed, "quality", task), group=task) for task in range(tasks)]
    try:
        generator = TransformersGenerator(model, tokenizer=tokenizer)
        return flow.run(assignments, generator, sampling)
    finally:
        flow.close()


def success_rate(episodes: list[Trajectory]) -> float:
    """Share of the episodes that succeeded."""
    return sum(episode.success for episode in episodes) / len(episodes)
