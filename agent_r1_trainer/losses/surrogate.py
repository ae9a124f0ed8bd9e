"""The clipped surrogate of PPO, with asymmetric bounds and an optional dual clip."""

import torch
from torch import Tensor

__all__ = ["clipped_surrogate"]


def clipped_surrogate(
    log_ratio: Tensor,
    advantages: Tensor,
    *,
    epsilon_low: float,
    epsilon_high: float,
    dual_clip: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss of each token: ``max(-rho A, -clip(rho, 1 - low, 1 + high) A)``.

    With a dual clip ``c > 1`` (Ye et al. 2020) the loss of a negative advantage is at most ``-c A``, so that a token
    whose probability grew a lot cannot dominate the batch: ``min(max(-rho A, -clip(rho) A), -c A)`` for ``A < 0``.

    Args:
        log_ratio: [M] from `log_ratios`.
        advantages: [M] the advantage of each token's step.
        epsilon_low: The ratio is held above ``1 - epsilon_low``.
        epsilon_high: The ratio is held below ``1 + epsilon_high``.
        dual_clip: c, or None for no dual clip.

    Returns:
        The loss [M], and three masks [M] of tokens without gradient: cut at the lower bound (only possible for A <
        0), cut at the upper bound (only for A > 0), cut by the dual clip.
    """
    ratio = log_ratio.exp()
    loss = torch.maximum(-ratio * advantages, -ratio.clamp(1.0 - epsilon_low, 1.0 + epsilon_high) * advantages)
    low = (ratio < 1.0 - epsilon_low) & (advantages < 0)
    high = (ratio > 1.0 + epsilon_high) & (advantages > 0)
    if dual_clip is None:
        return loss, low, high, torch.zeros_like(low)
    bound = -dual_clip * advantages
    dual = (advantages < 0) & (loss > bound)
    return torch.where(dual, bound, loss), low, high, dual
