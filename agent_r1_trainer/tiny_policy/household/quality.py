"""What the household policy can do, apart from what it chooses to do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agent_r1_trainer.tiny_policy.household.demonstrations import make_env
from agent_r1_trainer.tiny_policy.playing import play_tasks, success_rate

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["Quality", "measure_quality", "play"]

_MOST_TOKENS = 10

play = partial(play_tasks, make_env=make_env, max_reply=_MOST_TOKENS)
"""Let a policy play tasks of this environment; see `play_tasks`."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Shares of the tasks, or of the turns.

    Attributes:
        sampled: Success at temperature 1.
        greedy: Success with the most likely replies.
        cold: Success at temperature 0.3.
        command_skill: Sampled replies that are commands which can be done.
    """

    sampled: float
    greedy: float
    cold: float
    command_skill: float


def measure_quality(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, tasks: int = 240, split: str = "test"
) -> Quality:
    """Measure a policy on the first `tasks` tasks of a split of the embedded panel; about half a minute."""
    sampled, greedy, cold = (
        play(model, tokenizer, tasks=tasks, split=split, temperature=temperature) for temperature in (1.0, 0.0, 0.3)
    )
    turns = [step.invalid for episode in sampled for step in episode.steps]
    return Quality(success_rate(sampled), success_rate(greedy), success_rate(cold), 1 - sum(turns) / len(turns))
