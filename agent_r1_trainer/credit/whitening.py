"""Whitening of advantages: zero mean, unit variance."""

import numpy as np

from agent_r1_trainer.credit.arrays import Floats

__all__ = ["whiten"]


def whiten(x: Floats) -> Floats:
    """Shift and scale to mean 0 and standard deviation 1, or to all zeros where nothing varies.

    Computed in float64 in two passes with ``ddof=0``: a one-pass variance in float32 loses all digits when the mean is
    large, and a sample standard deviation of one element is NaN.

    Args:
        x: [N] values, N may be 0.

    Returns:
        [N] float64. All zeros if the standard deviation is below ``1e-6 * max(1, |mean|)``: then the differences
        are rounding, and dividing by them would make a gradient out of noise.
    """
    x = np.asarray(x, dtype=np.float64)
    if x.size == 0:
        return x
    mean = x.mean()
    centred = x - mean
    std = np.sqrt(np.mean(centred * centred))
    if std < 1e-6 * max(1.0, abs(mean)):
        return np.zeros_like(x)
    return centred / std
