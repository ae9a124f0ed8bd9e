"""Statistics within groups: of the samples of a task, or of the steps that saw one state."""

from dataclasses import dataclass

import numpy as np

from agent_r1_trainer.credit.batch import Floats, Integers

__all__ = ["GroupStatistics", "group_statistics"]


@dataclass(frozen=True, eq=False, slots=True)
class GroupStatistics:
    """What each member of a group needs to know about the group.

    Attributes:
        count: [K] size of the member's group, itself included.
        deviation: [K] the member's value minus the mean of the group; exactly 0 where all members are equal.
        mean: [K] mean of the group.
        std: [K] standard deviation of the group with ``ddof=1``; 0, never NaN, in a group of one.
    """

    count: Integers
    deviation: Floats
    mean: Floats
    std: Floats

    @property
    def standardised(self) -> Floats:
        """[K] deviation over std; 0 where the std is below ``1e-6 max(1, |mean|)``, since that is rounding."""
        varies = self.std >= 1e-6 * np.maximum(1.0, np.abs(self.mean))
        return np.where(varies, self.deviation, 0.0) / np.where(varies, self.std, 1.0)


def group_statistics(values: Floats, groups: Integers) -> GroupStatistics:
    """Compute the statistics of groups, float64, in two passes.

    Args:
        values: [K] one value a member.
        groups: [K] equal numbers are one group; in any order.

    >>> statistics = group_statistics(np.asarray([1.0, 5.0, 3.0]), np.asarray([7, 2, 7]))
    >>> statistics.deviation.tolist(), statistics.std.round(4).tolist(), statistics.count.tolist()
    ([-1.0, 0.0, 1.0], [1.4142, 0.0, 1.4142], [2, 1, 2])
    """
    _, first, group, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    # Measured from a member of the group: sums of equal values are then exact, and a large offset costs no digits.
    start = values[first]
    offset = values - start[group]
    shift = _sums(offset, group, sizes.size) / sizes
    deviation = offset - shift[group]
    variance = _sums(deviation * deviation, group, sizes.size) / np.maximum(sizes - 1, 1)
    return GroupStatistics(
        count=sizes.astype(np.int64)[group],
        deviation=deviation,
        mean=(start + shift)[group],
        std=np.sqrt(variance)[group],
    )


def _sums(values: Floats, group: Integers, count: int) -> Floats:
    return np.bincount(group, weights=values, minlength=count).astype(np.float64)
