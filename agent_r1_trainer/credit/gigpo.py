"""Group-in-group advantages (GiGPO, arXiv 2505.10978)."""

import numpy as np

from agent_r1_trainer.credit.batch import Credit, CreditBatch, Floats, Integers
from agent_r1_trainer.credit.groups import group_statistics
from agent_r1_trainer.credit.recursion import discounted_sums
from agent_r1_trainer.credit.registry import register

__all__ = ["gigpo"]


@register("gigpo", needs_values=False, needs_anchors=True, needs_groups=True)
def gigpo(
    batch: CreditBatch, *, gamma: float, lam: float, step_weight: float = 1.0, normalize_std: bool = True
) -> Credit:
    """Trajectory against trajectory, plus step against step: ``(R - m) / F + w (G_t - m_g) / F_g``.

    The first part compares the returns of the samples of a task, as in GRPO. The second compares the discounted returns
    ``G_t = sum_l gamma^l r_{t+l}`` of those steps of the group that saw the same state (the same anchor): what the
    different actions there led to. Every visit counts, two by one trajectory too. A state seen once, and a task sampled
    once, give 0, and so does what does not vary.

    Args:
        batch: The steps of all ranks, with ``anchors``.
        gamma: Discount per step in the second part; the paper's is 0.95.
        lam: Without effect.
        step_weight: ``w``, not negative.
        normalize_std: F is the standard deviation (``ddof=1``) of the group; else it is 1.

    Returns:
        Advantages [N].

    Raises:
        ValueError: The batch has no anchors, or a negative weight.

    Two samples of a task with rewards (0, 4) and (0, 0), gamma 1/2, F = 1. Returns 4 and 0 give 2 and -2. In state 7
    the first sample's ``G`` is 2 and the second one's 0: 1 and -1. States 8 and 9 were seen once:

    >>> from agent_r1_trainer.credit import CreditBatch, gigpo
    >>> batch = CreditBatch(
    ...     rewards=[0, 4, 0, 0], values=[0] * 4, trajectory=[0, 0, 1, 1], final_values=[0, 0], groups=[0, 0],
    ...     anchors=[7, 8, 7, 9],
    ... )
    >>> gigpo(batch, gamma=0.5, lam=1.0, normalize_std=False).advantages.tolist()
    [3.0, 2.0, -3.0, -2.0]
    >>> gigpo(batch, gamma=0.5, lam=1.0).advantages.round(4).tolist()
    [1.4142, 0.7071, -1.4142, -0.7071]
    """
    if batch.anchors is None:
        raise ValueError("gigpo compares steps that saw the same state: set anchors of the CreditBatch")
    if step_weight < 0:
        raise ValueError(f"step_weight of gigpo must not be negative, got {step_weight}")
    states = _pairs(batch.groups[batch.trajectory], batch.anchors)
    episode = _relative(batch.returns, batch.groups, normalize_std)
    step = _relative(discounted_sums(batch.rewards, batch.trajectory, gamma), states, normalize_std)
    return Credit(advantages=episode[batch.trajectory] + step_weight * step)


def _relative(values: Floats, groups: Integers, normalize_std: bool) -> Floats:
    statistics = group_statistics(values, groups)
    return statistics.standardised if normalize_std else statistics.deviation


def _pairs(first: Integers, second: Integers) -> Integers:
    """[N] numbers that are equal exactly where both are."""
    _, a = np.unique(first, return_inverse=True)
    found, b = np.unique(second, return_inverse=True)
    return np.asarray(a * found.size + b, dtype=np.int64)
