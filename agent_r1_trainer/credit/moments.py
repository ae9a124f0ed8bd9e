"""Count, mean and spread of numbers that come in batches."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Moments"]


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
