"""Generalised advantage estimation over the steps of an agent (StepPO, published as CAPO, 2604.18401)."""

from agent_r1_trainer.credit.batch import Credit, CreditBatch, Floats
from agent_r1_trainer.credit.recursion import gae
from agent_r1_trainer.credit.registry import register
from agent_r1_trainer.credit.whitening import whiten

__all__ = ["step_advantages", "step_gae"]


@register("step_gae", needs_values=True)
def step_gae(batch: CreditBatch, *, gamma: float, lam: float) -> Credit:
    """Step GAE, whitened over all steps of the batch, but for what is small beside the returns (see `whiten`).

    With ``delta_t = r_t + gamma V_{t+1} - V_t`` (``V_T`` is the trajectory's final value), ``A_t = sum_l (gamma lam)^l
    delta_{t+l}`` and the critic's target is ``R_t = A_t + V_t``, taken before whitening.

    Args:
        batch: The steps of all ranks.
        gamma: Discount per step (not per token).
        lam: The lambda of GAE; 1 gives the discounted return minus the value.

    Returns:
        Whitened advantages [N] and targets of the critic [N].

    Two steps with values 2 and 4, reward 8 at the end, gamma and lambda 1/2. ``delta = (0 + 2 - 2, 8 - 4) = (0, 4)``;
    ``A = (0 + 4/4, 4) = (1, 4)``; targets ``(1 + 2, 4 + 4)``. Mean 2.5 and deviation 1.5 whiten A to -1 and 1:

    >>> from agent_r1_trainer.credit import CreditBatch, step_gae
    >>> batch = CreditBatch(rewards=[0, 8], values=[2, 4], trajectory=[0, 0], final_values=[0], groups=[0])
    >>> credit = step_gae(batch, gamma=0.5, lam=0.5)
    >>> credit.advantages.tolist(), credit.returns.tolist()
    ([-1.0, 1.0], [3.0, 8.0])
    """
    advantages = step_advantages(batch, gamma=gamma, lam=lam)
    scales = None if batch.scales is None else batch.scales[batch.trajectory]
    return Credit(advantages=whiten(advantages, scales), returns=advantages + batch.values)


def step_advantages(batch: CreditBatch, *, gamma: float, lam: float) -> Floats:
    """Step GAE before whitening, [N] float64."""
    return gae(batch.rewards, batch.values, batch.trajectory, batch.final_values, gamma=gamma, lam=lam)
