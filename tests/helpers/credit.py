"""Random ragged episodes with groups, and the batch of an estimator made from them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent_r1_trainer.credit import CreditBatch, anchor_numbers
from agent_r1_trainer.trajectory import Trajectory


@dataclass
class Turn:
    """A step as plain Python: its reward, V(s_t), the values of its response tokens (none for no token), its state."""

    reward: float
    value: float
    token_values: list[float]
    anchor: int


@dataclass
class Episode:
    """Steps of one sample of the task `group`, and the value after the last one."""

    turns: list[Turn]
    group: int
    final: float

    @property
    def total(self) -> float:
        return sum(turn.reward for turn in self.turns)


def random_episodes(seed: int, count: int, *, equal: bool = False) -> list[Episode]:
    """Groups of 1 to 5 in mixed order, 1 to 12 steps, 0 to 4 tokens a response; few rewards, or all the same."""
    rng = random.Random(seed)
    episodes: list[Episode] = []
    group = 0
    while len(episodes) < count:
        for _ in range(rng.randint(1, 5)):
            turns = []
            for _ in range(1 if equal else rng.choice([1, 2, 3, rng.randint(1, 12)])):
                values = [rng.gauss(0, 1) for _ in range(rng.choice([0, 1, 2, 4]))]
                reward = 0.1 if equal else rng.choice([0.0, 0.0, 1.0, -0.1, rng.gauss(0, 2)])
                turns.append(Turn(reward, values[0] if values else rng.gauss(0, 1), values, rng.randrange(4)))
            episodes.append(Episode(turns, group, rng.choice([0.0, rng.gauss(0, 1)])))
        group += 1
    rng.shuffle(episodes)
    return episodes[:count]


def to_batch(episodes: list[Episode]) -> CreditBatch:
    turns = [turn for episode in episodes for turn in episode.turns]
    return CreditBatch(
        rewards=[turn.reward for turn in turns],
        values=[turn.value for turn in turns],
        trajectory=[i for i, episode in enumerate(episodes) for _ in episode.turns],
        final_values=[episode.final for episode in episodes],
        groups=[episode.group for episode in episodes],
        response_lengths=[len(turn.token_values) for turn in turns],
        token_values=[value for turn in turns for value in turn.token_values],
        anchors=[turn.anchor for turn in turns],
    )


def batch_of(
    trajectories: Sequence[Trajectory],
    values: Sequence[float] | None = None,
    final_values: Sequence[float] | None = None,
    token_values: Sequence[float] | None = None,
) -> CreditBatch:
    """The batch of unmasked trajectories; a critic says 0 where nothing else is said."""
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    anchors = [step.anchor for step in steps]
    return CreditBatch(
        rewards=[step.reward for step in steps],
        values=np.zeros(len(steps)) if values is None else values,
        trajectory=np.repeat(np.arange(len(trajectories)), [len(trajectory) for trajectory in trajectories]),
        final_values=np.zeros(len(trajectories)) if final_values is None else final_values,
        groups=[trajectory.group for trajectory in trajectories],
        response_lengths=[len(step.response_ids) for step in steps],
        token_values=token_values,
        anchors=anchor_numbers(anchors) if any(anchors) else None,
    )
