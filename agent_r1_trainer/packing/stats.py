"""How many tokens a packing computes, against how many there are."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent_r1_trainer.packing.units import Unit
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["PackingStats", "packing_stats"]


@dataclass(frozen=True, slots=True)
class PackingStats:
    """Token counts of one pass over some trajectories.

    Attributes:
        distinct: Positions that have to be computed: those of the tree of each trajectory's sequences (shared prefixes
            count once, within a trajectory).
        computed: Tokens of the units.
        padded: Tokens of the micro-batches, padding included.
        unmerged: Tokens of the steps, each with its whole prompt.
    """

    distinct: int
    computed: int
    padded: int
    unmerged: int

    @property
    def computed_per_distinct(self) -> float:
        """1 if every token is computed once."""
        return self.computed / self.distinct if self.distinct else 1.0


def packing_stats(trajectories: Sequence[Trajectory], groups: Sequence[Sequence[Unit]]) -> PackingStats:
    """Count the tokens of a division into micro-batches.

    Args:
        trajectories: Unmasked trajectories.
        groups: Their units, from `merge_units`, divided by `micro_batches`.
    """
    sequences = [[step.prompt_ids + step.response_ids for step in trajectory.steps] for trajectory in trajectories]
    return PackingStats(
        distinct=sum(_distinct(steps) for steps in sequences),
        computed=sum(unit.length for group in groups for unit in group),
        padded=sum(len(group) * max((unit.length for unit in group), default=0) for group in groups),
        unmerged=sum(len(ids) for steps in sequences for ids in steps),
    )


def _distinct(sequences: list[list[int]]) -> int:
    """Nodes of the prefix tree: sorted neighbours share the longest prefixes."""
    total, previous = 0, list[int]()
    for ids in sorted(sequences):
        total += len(ids) - _common_prefix(previous, ids)
        previous = ids
    return total


def _common_prefix(a: list[int], b: list[int]) -> int:
    """Length of the longest common prefix, by bisection: slices compare at the speed of C."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:  # the first `low` ids agree, the first `high` do not
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low
