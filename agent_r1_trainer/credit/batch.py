"""What an advantage estimator reads and what it returns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent_r1_trainer.trajectory import Trajectory

__all__ = ["Credit", "CreditBatch", "Floats", "Integers"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CreditBatch:
    """The steps of the GLOBAL batch (of all ranks), trajectory after trajectory, without the masked ones.

    N is the number of steps and K the number of trajectories. Every rank builds the same batch (gather the arrays, then
    order the trajectories by ``(group, sample)``), so that every rank computes the same advantages.

    Attributes:
        rewards: [N] reward of each step, in the units that the critic predicts (scaled, where rewards are scaled).
        values: [N] the critic's ``V(s_t)``; zeros where the estimator uses no critic.
        trajectory: [N] which trajectory (0..K-1) a step belongs to, ascending; steps of one are in order of time.
        final_values: [K] value after the last step: 0 where the end is terminal, else the bootstrap.
        groups: [K] group of each trajectory: samples of the same task share one.
    """

    rewards: Floats
    values: Floats
    trajectory: Integers
    final_values: Floats
    groups: Integers

    def __post_init__(self) -> None:
        """Convert to float64 and int64 and check the shapes."""
        for name, kind in _FIELDS.items():
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind).reshape(-1))
        steps, count = self.rewards.size, self.final_values.size
        if self.values.size != steps or self.trajectory.size != steps:
            raise ValueError(
                f"rewards, values and trajectory must have one entry a step, got {steps}, {self.values.size} and "
                f"{self.trajectory.size}"
            )
        if self.groups.size != count:
            raise ValueError(f"final_values has {count} trajectories and groups has {self.groups.size}")
        if steps and (self.trajectory[0] < 0 or self.trajectory[-1] >= count or np.any(np.diff(self.trajectory) < 0)):
            raise ValueError(f"trajectory must ascend within 0..{count - 1}: one trajectory's steps after another's")

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Sequence[Trajectory],
        values: Sequence[float] | Floats | None = None,
        final_values: Sequence[float] | Floats | None = None,
        reward_scale: float = 1.0,
    ) -> "CreditBatch":
        """Build the batch from unmasked trajectories.

        Args:
            trajectories: The trajectories of all ranks, none of them masked.
            values: [N] values of the steps in order, zeros if None.
            final_values: [K] values after the last steps, zeros if None.
            reward_scale: Rewards are DIVIDED by this.

        Raises:
            ValueError: A masked trajectory is among them.
        """
        masked = [trajectory.task_id for trajectory in trajectories if trajectory.masked]
        if masked:
            raise ValueError(f"leave masked trajectories out of the batch: {masked[:3]}")
        lengths = [len(trajectory) for trajectory in trajectories]
        rewards = np.asarray([step.reward for trajectory in trajectories for step in trajectory.steps], np.float64)
        return cls(
            rewards=rewards / reward_scale,
            values=np.zeros(rewards.size) if values is None else np.asarray(values, np.float64),
            trajectory=np.repeat(np.arange(len(trajectories)), lengths),
            final_values=np.zeros(len(trajectories)) if final_values is None else np.asarray(final_values, np.float64),
            groups=np.asarray([trajectory.group for trajectory in trajectories], np.int64),
        )

    @property
    def lengths(self) -> Integers:
        """[K] number of steps of each trajectory."""
        return np.bincount(self.trajectory, minlength=self.final_values.size).astype(np.int64)

    @property
    def time(self) -> Integers:
        """[N] position of each step in its trajectory, from 0."""
        lengths = self.lengths
        starts = np.cumsum(lengths) - lengths
        return np.arange(self.trajectory.size, dtype=np.int64) - starts[self.trajectory]


_FIELDS = {
    "rewards": np.float64,
    "values": np.float64,
    "trajectory": np.int64,
    "final_values": np.float64,
    "groups": np.int64,
}


@dataclass(frozen=True, eq=False)
class Credit:
    """The estimator's answer, in the order of the batch's steps.

    Attributes:
        advantages: [N] as they enter the policy loss: already whitened or normalised as the estimator defines it.
        returns: [N] targets of the critic, ``None`` where the estimator uses no critic.
    """

    advantages: Floats
    returns: Floats | None = None
