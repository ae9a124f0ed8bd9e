"""Rewards divided by the running standard deviation of their discounted returns.

Only the scale changes, never the offset: subtracting a mean would make long episodes pay. With it, one learning rate
and one value weight serve a success reward of 1 and of 10 alike; without it a value head on a shared trunk destroyed
the policy at a success reward of 10.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_r1_trainer.trajectory import discounted_returns

__all__ = ["Moments", "RewardScaler"]


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean and sum of squared deviations of a set of numbers, float64.

    Attributes:
        count: How many numbers.
        mean: Their mean, 0 for none.
        m2: Sum of ``(x - mean)^2``.
    """

    count: int = 0
    mean: float = 0.0
    m2: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> "Moments":
        """Moments of some numbers; exactly rounded sums make the result independent of their order."""
        numbers = list(values)
        if not numbers:
            return cls()
        mean = math.fsum(numbers) / len(numbers)
        return cls(len(numbers), mean, math.fsum((x - mean) ** 2 for x in numbers))

    def merge(self, other: "Moments") -> "Moments":
        """Moments of both sets together (Chan et al. 1979)."""
        count = self.count + other.count
        if count == 0:
            return self
        delta = other.mean - self.mean
        mean = self.mean + delta * other.count / count
        return Moments(count, mean, self.m2 + other.m2 + delta * delta * self.count * other.count / count)

    @property
    def std(self) -> float:
        """Standard deviation with ``ddof=0``, 0 for no numbers."""
        return math.sqrt(self.m2 / self.count) if self.count else 0.0


class RewardScaler:
    """Keeps the running moments of discounted returns and gives the number to divide rewards by.

    Every rank updates with the same rewards (those of all ranks, gathered) and so holds the same state. Where only
    moments are gathered, `update_moments` with the ranks' moments in rank order is deterministic too.

    Args:
        gamma: Discount per step: the one of the advantage estimator.
    """

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.moments = Moments()

    def returns_moments(self, rewards: Iterable[Sequence[float]]) -> Moments:
        """Moments of the discounted return from every step of some trajectories; changes nothing.

        Returns that are not finite are left out: a single one would stay in the scale for the rest of the run.

        Args:
            rewards: The unscaled rewards of each trajectory.
        """
        returns = (value for trajectory in rewards for value in discounted_returns(trajectory, self.gamma))
        return Moments.of(value for value in returns if math.isfinite(value))

    def update(self, rewards: Iterable[Sequence[float]]) -> float:
        """Take in a batch and return the new scale; call it once a batch, before the batch's rewards are divided.

        Args:
            rewards: The unscaled rewards of each unmasked trajectory of all ranks.
        """
        return self.update_moments([self.returns_moments(rewards)])

    def update_moments(self, parts: Iterable[Moments]) -> float:
        """Take in moments (one per rank, in rank order) and return the new scale."""
        for part in parts:
            self.moments = self.moments.merge(part)
        return self.scale

    @property
    def scale(self) -> float:
        """Divide rewards by this: positive, and ten times as large for rewards ten times as large.

        The standard deviation; where the returns do not vary, the size of their mean; 1 where all of them are 0.
        """
        size = abs(self.moments.mean)
        std = self.moments.std
        if std > 1e-6 * size:
            return std
        return size if size > 0.0 else 1.0

    def state_dict(self) -> dict[str, float]:
        """Return the state as plain numbers, for a checkpoint."""
        return {"count": self.moments.count, "mean": self.moments.mean, "m2": self.moments.m2}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Restore what `state_dict` gave."""
        self.moments = Moments(int(state["count"]), float(state["mean"]), float(state["m2"]))
