"""Means over episodes with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Estimate", "ratio_estimates"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval.

    Attributes:
        value: The figure over all episodes.
        low: 2.5th percentile of the figure over resamples of the episodes.
        high: 97.5th percentile.
    """

    value: float
    low: float
    high: float


def ratio_estimates(
    numerators: npt.ArrayLike, denominators: npt.ArrayLike, *, resamples: int = 2000, seed: int = 0
) -> list[Estimate]:
    """Estimate ``sum(numerator) / sum(denominator)`` of several figures with percentile-bootstrap intervals.

    Episodes are resampled with replacement, all figures together. A mean over episodes has denominators of 1. The
    interval says how far the figure would move with other tasks of the same kind; it knows nothing of a bias.

    Args:
        numerators: Shape ``[episodes, figures]``.
        denominators: The same shape.
        resamples: Number of bootstrap samples.
        seed: Of the resampling; equal input gives equal intervals.

    Returns:
        One estimate a figure. A denominator of 0 gives 0.

    Raises:
        ValueError: There is no episode.
    """
    over, under = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    episodes = len(over)
    if not episodes:
        raise ValueError("cannot estimate anything from no episodes")
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, over.shape[1]))
    for row in range(resamples):
        picked = rng.integers(episodes, size=episodes)
        drawn[row] = _ratio(over[picked], under[picked])
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return [Estimate(*map(float, figures)) for figures in zip(_ratio(over, under), low, high, strict=True)]


def _ratio(over: npt.NDArray[np.float64], under: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    total = under.sum(axis=0)
    return np.divide(over.sum(axis=0), total, out=np.zeros_like(total), where=total != 0)
