"""Group-relative advantages (GRPO, arXiv 2402.03300; without the division: Dr. GRPO, arXiv 2503.20783)."""

from agent_r1_trainer.credit.batch import Credit, CreditBatch
from agent_r1_trainer.credit.groups import group_statistics
from agent_r1_trainer.credit.registry import register

__all__ = ["grpo"]


@register("grpo", needs_values=False, needs_groups=True)
def grpo(batch: CreditBatch, *, gamma: float, lam: float, normalize_std: bool = True) -> Credit:
    """Return of the trajectory against those of the same task: ``(R - mean) / (std + 1e-6)``.

    All steps of a trajectory get its number. Mean and std (``ddof=1``) are over TRAJECTORIES: over steps, a trajectory
    of many turns would count as many times. A group of one gives 0: there is nothing to compare with.

    Args:
        batch: The steps of all ranks.
        gamma: Without effect, the return is not discounted.
        lam: Without effect.
        normalize_std: Divide by the group's std. Without it (Dr. GRPO) tasks that nearly always or nearly never succeed
            are not given more weight than others.

    Returns:
        Advantages [N].

    Two samples of one task with returns 0 + 1 and 3: mean 2, deviations -1 and 1, std sqrt(2):

    >>> from agent_r1_trainer.credit import CreditBatch, grpo
    >>> batch = CreditBatch(
    ...     rewards=[0, 1, 3], values=[0, 0, 0], trajectory=[0, 0, 1], final_values=[0, 0], groups=[0, 0]
    ... )
    >>> grpo(batch, gamma=1.0, lam=1.0).advantages.round(4).tolist()
    [-0.7071, -0.7071, 0.7071]
    >>> grpo(batch, gamma=1.0, lam=1.0, normalize_std=False).advantages.tolist()
    [-1.0, -1.0, 1.0]
    """
    group = group_statistics(batch.returns, batch.groups)
    advantages = group.deviation / (group.std + 1e-6) if normalize_std else group.deviation
    return Credit(advantages=advantages[batch.trajectory])
