"""Groups that teach nothing: every sample of the task got the same return."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from agent_r1_trainer.learning.experience import BatchFacts

__all__ = ["zero_variance"]


def zero_variance(facts: Sequence[BatchFacts]) -> tuple[list[bool], float]:
    """Find the trajectories whose group has no variance in its returns.

    A return is the undiscounted sum of the rewards that the environment gave. Returns within 1e-6 of each other
    (relative to the largest, if that is above 1) are equal: sums of the same rewards in another order differ by
    rounding. A group of one has no variance either, but that is the choice of the run and no property of the task: it
    never counts.

    Args:
        facts: The unmasked trajectories of all ranks.

    Returns:
        For each trajectory whether its group is one of at least two equal returns, and the share of such groups among
        those of at least two; NaN if there are none.
    """
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, fact in enumerate(facts):
        groups[fact.env, fact.group].append(index)
    flags = [False] * len(facts)
    several = [members for members in groups.values() if len(members) > 1]
    flat = [members for members in several if _equal([sum(facts[index].rewards) for index in members])]
    for members in flat:
        for index in members:
            flags[index] = True
    return flags, len(flat) / len(several) if several else float("nan")


def _equal(returns: Sequence[float]) -> bool:
    return max(returns) - min(returns) <= 1e-6 * max(1.0, max(map(abs, returns)))
