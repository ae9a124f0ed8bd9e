"""Sums and means of tokens inside a step.

Response tokens of a micro-batch lie in one flat vector of M entries, whatever row they came from; ``token_step`` says
which of the S steps a token belongs to. So a packed row with several responses needs no special case anywhere.
"""

import torch
from torch import Tensor

__all__ = ["segment_lengths", "segment_mean", "segment_sum", "token_weights"]


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
