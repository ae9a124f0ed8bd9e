"""Sums and means of tokens inside a step, and the weights of the steps of a mini-batch.

Response tokens of a micro-batch lie in one flat vector of M entries, whatever row they came from; ``token_step`` says
which of the S steps a token belongs to. So a packed row with several responses needs no special case anywhere.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = [
    "MAX_LOG_RATIO",
    "Aggregation",
    "segment_lengths",
    "segment_mean",
    "segment_sum",
    "step_weights",
    "token_weights",
]

Aggregation = Literal[
    "step_mean", "token_mean", "token_sum", "trajectory_mean", "trajectory_step_mean", "trajectory_step_sum"
]

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to +-20 before the exponential: far outside every clip range, and finite in fp32."""


def segment_sum(x: Tensor, token_step: Tensor, num_steps: int) -> Tensor:
    """Sum the tokens of each step.

    Args:
        x: [M] one number a token.
        token_step: [M] int64, the step (0..S-1) of each token.
        num_steps: S.

    Returns:
        [S]; 0 for a step without tokens.
    """
    return torch.zeros(num_steps, dtype=x.dtype, device=x.device).index_add(0, token_step, x)


def segment_lengths(token_step: Tensor, num_steps: int) -> Tensor:
    """Number of tokens of each step, [S] int64."""
    return torch.bincount(token_step, minlength=num_steps)


def segment_mean(x: Tensor, token_step: Tensor, num_steps: int) -> Tensor:
    """Mean over the tokens of each step, [S]; 0 for a step without tokens."""
    lengths = segment_lengths(token_step, num_steps).clamp(min=1)
    return segment_sum(x, token_step, num_steps) / lengths.to(x.dtype)


def token_weights(step_weights: Tensor, token_step: Tensor) -> Tensor:
    """Spread each step's weight evenly over its tokens.

    ``(token_weights * x).sum()`` is ``sum_i w_i mean_j x_ij``.

    Args:
        step_weights: [S] weight of each step.
        token_step: [M] step of each token.

    Returns:
        [M] ``w_i / L_i``.
    """
    lengths = segment_lengths(token_step, step_weights.numel()).clamp(min=1)
    return (step_weights / lengths.to(step_weights.dtype))[token_step]


def step_weights(
    aggregation: Aggregation,
    lengths: Sequence[int] | NDArray[np.int64],
    trajectory_steps: Sequence[int] | NDArray[np.int64],
    trajectory_tokens: Sequence[int] | NDArray[np.int64],
    divisors: Sequence[float] | NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Weight of each step of ONE mini-batch in the policy loss, the KL term and the entropy.

    The denominators are global: pass the steps of the mini-batch on ALL ranks (they are metadata that every rank
    knows) and let each rank pick the weights of its own steps. The loss of the mini-batch is then the plain sum over
    ranks, micro-batches and steps of ``w_i mean_j loss_ij``: a step's weight is shared evenly by its tokens, and with a
    ratio per reply it is the weight of the reply.

    ========================  =====================  =====================================================
    ``step_mean``             1 / N                  every step counts the same
    ``token_mean``            L_i / sum L            every token counts the same
    ``token_sum``             L_i / D_i              tokens are summed and divided by a constant
    ``trajectory_mean``       L_i / (K M_i)          the mean over trajectories of the mean over their tokens
    ``trajectory_step_mean``  1 / (K T_i)            the mean over trajectories of the mean over their steps
    ``trajectory_step_sum``   1 / K                  the mean over trajectories of the sum over their steps
    ========================  =====================  =====================================================

    N counts the steps that have a policy term. K is the number of trajectories that have one; where a mini-batch holds
    only some steps of a trajectory, it holds that share of one: ``K = sum L_i / M_i`` of its tokens, or ``sum 1 / T_i``
    of its steps. Both are the plain count when trajectories are whole.

    Args:
        aggregation: One of the six.
        lengths: [n] number of response tokens L_i of each step, 0 for a step that is left out.
        trajectory_steps: [n] number of steps that are not left out, T_i, of the WHOLE trajectory that each step
            belongs to.
        trajectory_tokens: [n] number of response tokens M_i of these steps.
        divisors: [n] constants D_i; for ``token_sum`` only.

    Returns:
        [n] float64; 0 for a step without response tokens. All but the sums add up to 1. The value loss
        weighs steps by ``1 / n`` instead, empty responses included.

    Raises:
        ValueError: Unknown aggregation, lengths that do not match, or ``token_sum`` without divisors.
    """
    if aggregation not in get_args(Aggregation):
        raise ValueError(f"aggregation must be one of {', '.join(get_args(Aggregation))}, got {aggregation!r}")
    tokens = np.asarray(lengths, dtype=np.float64)
    for name, array in (
        ("trajectory_steps", trajectory_steps), ("trajectory_tokens", trajectory_tokens), ("divisors", divisors)
    ):  # fmt: skip
        if array is not None and np.shape(array) != tokens.shape:
            raise ValueError(f"lengths has shape {tokens.shape} and {name} has {np.shape(array)}")
    if aggregation == "token_sum":
        if divisors is None:
            raise ValueError("token_sum needs the divisors: what the sum over a step's tokens is divided by")
        return tokens / np.asarray(divisors, dtype=np.float64)
    real = (tokens > 0).astype(np.float64)
    of_steps, of_tokens = (
        np.divide(part, whole, out=np.zeros_like(tokens), where=tokens > 0)
        for part, whole in ((real, np.asarray(trajectory_steps)), (tokens, np.asarray(trajectory_tokens)))
    )
    numerator, denominator = {
        "step_mean": (real, real.sum()),
        "token_mean": (tokens, tokens.sum()),
        "trajectory_mean": (of_tokens, of_tokens.sum()),
        "trajectory_step_mean": (of_steps, of_steps.sum()),
        "trajectory_step_sum": (real, of_steps.sum()),
    }[aggregation]
    return numerator / denominator if denominator > 0 else np.zeros_like(tokens)
