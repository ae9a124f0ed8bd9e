"""Step weights: how the steps of a mini-batch are averaged."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = ["Aggregation", "step_weights"]

Aggregation = Literal["step_mean", "token_mean", "trajectory_mean", "trajectory_sum"]


def step_weights(
    aggregation: Aggregation,
    lengths: Sequence[int] | NDArray[np.int64],
    trajectory_steps: Sequence[int] | NDArray[np.int64],
) -> NDArray[np.float64]:
    """Weight of each step of ONE mini-batch in the policy loss, the KL term and the entropy.

    The denominators are global: pass the steps of the mini-batch on ALL ranks (they are metadata that every rank
    knows) and let each rank pick the weights of its own steps. The loss of the mini-batch is then the plain sum over
    ranks, micro- batches and steps of ``w_i mean_j loss_ij``.

    ========================  =====================  ===========================================
    ``step_mean``             1 / N                  every step counts the same
    ``token_mean``            L_i / sum L            every token counts the same
    ``trajectory_mean``       1 / (K T_i)            every trajectory counts the same
    ``trajectory_sum``        1 / K                  steps of a trajectory are summed
    ========================  =====================  ===========================================

    N counts the steps that have a policy term. K is the number of trajectories; where a mini-batch holds only some
    steps of a trajectory, it holds that share of one: ``K = sum 1 / T_i`` over its steps, which is the plain count when
    trajectories are whole.

    Args:
        aggregation: One of the four.
        lengths: [n] number of response tokens L_i of each step.
        trajectory_steps: [n] number of steps with a response, T_i, of the WHOLE trajectory that each step belongs to.

    Returns:
        [n] float64; 0 for a step without response tokens. All but ``trajectory_sum`` sum to 1. The value loss
        weighs steps by ``1 / n`` instead, empty responses included.

    Raises:
        ValueError: Unknown aggregation, or lengths that do not match.
    """
    if aggregation not in get_args(Aggregation):
        raise ValueError(f"aggregation must be one of {', '.join(get_args(Aggregation))}, got {aggregation!r}")
    tokens = np.asarray(lengths, dtype=np.float64)
    steps = np.asarray(trajectory_steps, dtype=np.float64)
    if tokens.shape != steps.shape:
        raise ValueError(f"lengths has shape {tokens.shape} and trajectory_steps has {steps.shape}")
    real = tokens > 0
    share = np.divide(1.0, steps, out=np.zeros_like(steps), where=real & (steps > 0))
    numerator, denominator = {
        "step_mean": (real.astype(np.float64), real.sum()),
        "token_mean": (tokens, tokens.sum()),
        "trajectory_mean": (share, share.sum()),
        "trajectory_sum": (real.astype(np.float64), share.sum()),
    }[aggregation]
    return numerator / denominator if denominator > 0 else np.zeros_like(tokens)
