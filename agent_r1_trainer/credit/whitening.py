"""Whitening of advantages: zero mean, unit variance, unless nothing is there to be whitened."""

import numpy as np

from agent_r1_trainer.credit.batch import Floats

__all__ = ["whiten"]


def whiten(x: Floats, scales: Floats | None = None) -> Floats:
    """Shift and scale to mean 0 and standard deviation 1, or to all zeros where nothing varies.

    Computed in float64 in two passes with ``ddof=0``: a one-pass variance in float32 loses all digits when the mean is
    large, and a sample standard deviation of one element is NaN.

    A batch in which hardly anything differs would be blown up: a lone failure among a hundred successes to -10, the
    error of a critic to as much as a real difference. So where it is known how much returns differ, the deviation that
    is divided by is at least that: no advantage is larger than in deviations of the returns.

    Args:
        x: [N] values, N may be 0.
        scales: [N] above 0, how much returns differ in the environment that each value comes from; values are compared
            in these units. None: not known.

    Returns:
        [N] float64. All zeros if the standard deviation is below ``1e-6 * max(1, |mean|)``: then the differences
        are rounding, and dividing by them would make a gradient out of noise.

    >>> whiten(np.asarray([1.0, 3.0])).tolist()
    [-1.0, 1.0]
    >>> whiten(np.asarray([1.0, 3.0]), scales=np.asarray([10.0, 10.0])).round(3).tolist()
    [-0.1, 0.1]
    """
    x = np.asarray(x, dtype=np.float64)
    if x.size == 0:
        return x
    if scales is not None:
        x = x / scales
    mean = x.mean()
    centred = x - mean
    std = np.sqrt(np.mean(centred * centred))
    if std < 1e-6 * max(1.0, abs(mean)):
        return np.zeros_like(x)
    return centred / (std if scales is None else max(std, 1.0))
