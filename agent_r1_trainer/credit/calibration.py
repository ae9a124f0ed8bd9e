"""How much of what a critic says is to be believed, judged by a batch's own returns."""

from typing import NamedTuple

import numpy as np

from agent_r1_trainer.credit.batch import Floats

__all__ = ["Calibration", "calibrate"]


class Calibration(NamedTuple):
    """What values mean: ``offset + slope * value``.

    Attributes:
        offset: What a value of 0 means.
        slope: In [0, 1]: 1 takes differences between values as they are, 0 does not believe in any.
    """

    offset: float
    slope: float

    def apply(self, values: Floats) -> Floats:
        """The calibrated values."""
        return self.offset + self.slope * values


def calibrate(values: Floats, targets: Floats) -> Calibration:
    """Fit values to what came after them, by least squares with a slope in [0, 1].

    Values only take variance out of advantages: they are a control variate, and least squares gives the coefficient
    with which one takes out most (Lavenberg and Welch 1981). A critic that knows its states is left as it is, slope 1.
    One that errs is believed less, and not at all where returns do not differ: what it says then is error alone, and
    an optimizer such as Adam, which divides gradients by their size, would follow it as far as a real difference.

    Args:
        values: [V] what the critic says.
        targets: [V] the returns that it is to predict, without a value in them.

    Returns:
        Offset and slope; 0 and 1, which change nothing, without a pair of finite numbers.

    Returns that differ twice as much as the values leave them as they are but for the mean; those that do not follow
    the values leave nothing of them:

    >>> calibrate(np.asarray([1.0, 3.0]), np.asarray([4.0, 8.0]))
    Calibration(offset=4.0, slope=1.0)
    >>> calibrate(np.asarray([1.0, 3.0, 5.0]), np.asarray([4.0, 4.0, 4.0]))
    Calibration(offset=4.0, slope=0.0)
    """
    known = np.isfinite(values) & np.isfinite(targets)
    if not known.any():
        return Calibration(0.0, 1.0)
    values, targets = values[known], targets[known]
    mean, target = float(values.mean()), float(targets.mean())
    spread = float(np.mean((values - mean) ** 2))
    slope = float(np.mean((values - mean) * (targets - target))) / spread if spread > 0.0 else 1.0
    slope = min(max(slope, 0.0), 1.0)
    return Calibration(target - slope * mean, slope)
