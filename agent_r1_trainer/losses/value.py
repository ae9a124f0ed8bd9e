"""The critic's loss."""

import torch
from torch import Tensor

__all__ = ["value_loss"]


def value_loss(
    values: Tensor, returns: Tensor, *, old_values: Tensor | None = None, clip: float | None = None
) -> tuple[Tensor, Tensor]:
    """Squared error of each value, optionally clipped around the value at collection time.

    ``0.5 max((V - R)^2, (V_old + clamp(V - V_old, -c, c) - R)^2)``; without a clip ``0.5 (V - R)^2``.

    Args:
        values: [n] V(s_t), read at the last prompt token of each step or where each token is predicted, with gradient.
        returns: [n] targets, in the same units.
        old_values: [n] values when the batch was collected; needed for a clip.
        clip: c, in the same units; None for no clip.

    Returns:
        The loss [n] and a mask [n] of the values whose clipped error was the larger one.

    Raises:
        ValueError: A clip without ``old_values``.
    """
    error = (values - returns) ** 2
    if clip is None:
        return 0.5 * error, torch.zeros_like(values, dtype=torch.bool)
    if old_values is None:
        raise ValueError("a value clip needs old_values")
    clipped = (old_values + (values - old_values).clamp(-clip, clip) - returns) ** 2
    return 0.5 * torch.maximum(error, clipped), clipped > error
