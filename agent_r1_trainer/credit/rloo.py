"""REINFORCE with a leave-one-out baseline (RLOO, arXiv 2402.14740)."""

import numpy as np

from agent_r1_trainer.credit.batch import Credit, CreditBatch
from agent_r1_trainer.credit.groups import group_statistics
from agent_r1_trainer.credit.registry import register

__all__ = ["rloo"]


@register("rloo", needs_values=False, needs_groups=True)
def rloo(batch: CreditBatch, *, gamma: float, lam: float) -> Credit:
    """Return of the trajectory minus the mean of the OTHER samples of the task: ``k/(k-1) (R - mean)``.

    All steps of a trajectory get its number, which is not normalised: it is unbiased, in units of the reward. A group
    of one gives 0: its raw return would be a return without any baseline.

    Args:
        batch: The steps of all ranks.
        gamma: Without effect, the return is not discounted.
        lam: Without effect.

    Returns:
        Advantages [N].

    Three samples of one task with returns 0, 3 and 6: the others' means are 4.5, 3 and 1.5:

    >>> from agent_r1_trainer.credit import CreditBatch, rloo
    >>> batch = CreditBatch(
    ...     rewards=[0, 1, 2, 6], values=[0] * 4, trajectory=[0, 1, 1, 2], final_values=[0] * 3, groups=[0] * 3
    ... )
    >>> rloo(batch, gamma=1.0, lam=1.0).advantages.tolist()
    [-4.5, 0.0, 0.0, 4.5]
    """
    group = group_statistics(batch.returns, batch.groups)
    advantages = group.deviation * (group.count / np.maximum(group.count - 1, 1))
    return Credit(advantages=advantages[batch.trajectory])
