"""Generalised advantage estimation over the steps of an agent (StepPO, arXiv 2604.18401)."""

import numpy as np

from agent_r1_trainer.credit.batch import Credit, CreditBatch, Floats
from agent_r1_trainer.credit.registry import register
from agent_r1_trainer.credit.whitening import whiten

__all__ = ["step_advantages", "step_gae"]


@register("step_gae", needs_values=True)
def step_gae(batch: CreditBatch, *, gamma: float, lam: float) -> Credit:
    """Step GAE, whitened over all steps of the batch.

    With ``delta_t = r_t + gamma V_{t+1} - V_t`` (``V_T`` is the trajectory's final value), ``A_t = sum_l (gamma lam)^l
    delta_{t+l}`` and the critic's target is ``R_t = A_t + V_t``, taken before whitening.

    Args:
        batch: The steps of all ranks.
        gamma: Discount per step (not per token).
        lam: The lambda of GAE; 1 gives the discounted return minus the value.

    Returns:
        Whitened advantages [N] and targets of the critic [N].
    """
    advantages = step_advantages(batch, gamma=gamma, lam=lam)
    return Credit(advantages=whiten(advantages), returns=advantages + batch.values)


def step_advantages(batch: CreditBatch, *, gamma: float, lam: float) -> Floats:
    """Step GAE before whitening, [N] float64.

    The recursion runs backwards over time, for all trajectories at once: a batch costs as many vector operations as its
    longest trajectory has steps.
    """
    lengths = batch.lengths
    horizon = int(lengths.max(initial=0))
    advantages = np.zeros_like(batch.rewards)
    # What follows the step at hand, per trajectory: its value and its advantage.
    next_value = batch.final_values.copy()
    next_advantage = np.zeros_like(next_value)
    starts = np.cumsum(lengths) - lengths
    for t in reversed(range(horizon)):
        alive = np.flatnonzero(lengths > t)
        at = starts[alive] + t
        delta = batch.rewards[at] + gamma * next_value[alive] - batch.values[at]
        advantages[at] = delta + gamma * lam * next_advantage[alive]
        next_value[alive] = batch.values[at]
        next_advantage[alive] = advantages[at]
    return advantages
