"""REINFORCE++ and its variant with a group baseline (arXiv 2501.03262)."""

from agent_r1_trainer.credit.batch import Credit, CreditBatch
from agent_r1_trainer.credit.groups import group_statistics
from agent_r1_trainer.credit.recursion import discounted_sums
from agent_r1_trainer.credit.registry import register
from agent_r1_trainer.credit.whitening import whiten

__all__ = ["reinforce_pp", "reinforce_pp_baseline"]


@register("reinforce_pp", needs_values=False)
def reinforce_pp(batch: CreditBatch, *, gamma: float, lam: float) -> Credit:
    """Return from the step on, ``G_t = sum_l gamma^l r_{t+l}``, whitened over all steps of the batch.

    The sum goes over the steps to the end of the trajectory: an early step earns what came later. Tokens of a reply are
    not discounted against each other. One sample a task is enough.

    Args:
        batch: The steps of all ranks.
        gamma: Discount per step.
        lam: Without effect.

    Returns:
        Advantages [N].

    Rewards 0 and 4 in a trajectory with gamma 1/2: ``G = (2, 4)``; another one earns 0. Mean 2, deviation sqrt(8/3):

    >>> from agent_r1_trainer.credit import CreditBatch, reinforce_pp
    >>> batch = CreditBatch(
    ...     rewards=[0, 4, 0], values=[0, 0, 0], trajectory=[0, 0, 1], final_values=[0, 0], groups=[0, 1]
    ... )
    >>> reinforce_pp(batch, gamma=0.5, lam=1.0).advantages.round(4).tolist()
    [0.0, 1.2247, -1.2247]
    """
    return Credit(advantages=whiten(discounted_sums(batch.rewards, batch.trajectory, gamma)))


@register("reinforce_pp_baseline", needs_values=False, needs_groups=True)
def reinforce_pp_baseline(batch: CreditBatch, *, gamma: float, lam: float) -> Credit:
    """Return of the trajectory minus the mean of its group, whitened over all trajectories of the batch.

    All steps of a trajectory get its number. Unlike in GRPO the scale is that of the whole batch, so a task whose
    samples differ little gets little weight.

    Args:
        batch: The steps of all ranks.
        gamma: Without effect, the return is not discounted.
        lam: Without effect.

    Returns:
        Advantages [N].

    Returns 0 and 2 in one group, 5 and 5 in another: deviations -1, 1, 0, 0 have mean 0 and deviation sqrt(1/2):

    >>> from agent_r1_trainer.credit import CreditBatch, reinforce_pp_baseline
    >>> batch = CreditBatch(
    ...     rewards=[0, 1, 1, 5, 5], values=[0] * 5, trajectory=[0, 1, 1, 2, 3], final_values=[0] * 4,
    ...     groups=[0, 0, 1, 1],
    ... )
    >>> reinforce_pp_baseline(batch, gamma=1.0, lam=1.0).advantages.round(4).tolist()
    [-1.4142, 1.4142, 1.4142, 0.0, 0.0]
    """
    advantages = whiten(group_statistics(batch.returns, batch.groups).deviation)
    return Credit(advantages=advantages[batch.trajectory])
