"""From the records of a run to the figures that are printed and saved, with 95 % intervals.

Intervals must not be too narrow at 0 and 1. A bootstrap of an agent that never succeeded draws nothing but failures: an
interval from 0 to 0, as if no success were possible. So shares of episodes have Wilson's score interval, and
differences of two such shares Newcombe's, which is made of Wilson's; figures without bounds, such as rewards, have
percentile bootstraps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from agent_r1_envs.files import write_json
from agent_r1_trainer.bench.episode import EpisodeRecord

__all__ = [
    "Estimate",
    "Summary",
    "paired_difference",
    "ratio_estimates",
    "share_estimate",
    "summarize",
    "write_summary",
]

_Z = 1.959963984540054
"""97.5th percentile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval.

    Attributes:
        value: The figure over all episodes.
        low: Lower end of the interval.
        high: Upper end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """The figures of a run.

    A failed episode counts as one without success, with score 0: an agent whose server breaks down has not solved the
    task. How many there are is said beside it.

    Attributes:
        episodes: Number of episodes played.
        failed: How many of them broke down.
        stops: Number of episodes by why they stopped.
        score: Mean score.
        success: Share of episodes with success.
        reward: Mean sum of rewards.
        turns: Mean number of replies.
        invalid_rate: Share of the replies that the env refused.
        usage: Sums of what the turns count, such as ``prompt_tokens``; empty where they count nothing.
    """

    episodes: int
    failed: int
    stops: dict[str, int]
    score: Estimate
    success: Estimate
    reward: Estimate
    turns: Estimate
    invalid_rate: Estimate
    usage: dict[str, int] = field(default_factory=dict)


def summarize(records: Sequence[EpisodeRecord]) -> Summary:
    """Compute the figures.

    Raises:
        ValueError: There is no record.
    """
    usage: Counter[str] = Counter()
    for record in records:
        for step in record.steps:
            usage.update(step.usage or {})
    reward, turns = ratio_estimates([[r.reward, r.turns] for r in records], [[1, 1]] * len(records))
    return Summary(
        episodes=len(records),
        failed=sum(r.failed for r in records),
        stops=dict(Counter(r.stop for r in records).most_common()),
        score=share_estimate([r.score for r in records]),
        success=share_estimate([r.success for r in records]),
        reward=reward,
        turns=turns,
        invalid_rate=share_estimate([r.invalid for r in records], [r.turns for r in records]),
        usage=dict(usage),
    )


def write_summary(summary: Summary, path: Path) -> None:
    """Write the figures as JSON, in one step."""
    write_json(path, asdict(summary))


def share_estimate(numerators: npt.ArrayLike, denominators: npt.ArrayLike | None = None, *, seed: int = 0) -> Estimate:
    """Estimate a figure from 0 to 1: a share of episodes, a mean of scores, or ``sum(numerator) / sum(denominator)``.

    Where every episode counts as 0 or 1, the interval is Wilson's score interval (Wilson 1927). Else it is a percentile
    bootstrap over the episodes, but at the ends: if the figure is 0 or 1, all episodes are alike, and the interval is
    that of as many episodes of which none, or every one, counted. No variable between 0 and 1 varies more than one that
    is either, so that this is no narrower than it should be.

    Args:
        numerators: [episodes], each between 0 and its denominator.
        denominators: [episodes]; None for ones. An episode whose denominator is 0 says nothing.
        seed: Of the bootstrap.

    Raises:
        ValueError: There is no episode.
    """
    over = np.asarray(numerators, dtype=np.float64)
    under = np.ones_like(over) if denominators is None else np.asarray(denominators, dtype=np.float64)
    if not len(over):
        raise ValueError("cannot estimate anything from no episodes")
    over, under = over[under > 0], under[under > 0]
    if not len(over):
        return Estimate(0.0, 0.0, 1.0)
    alike = bool(np.all(over == 0.0) or np.all(over == under))
    if alike or bool(np.all(under == 1.0) and np.all((over == 0.0) | (over == 1.0))):
        return _wilson(float(np.mean(over / under)), len(over))
    return ratio_estimates(over[:, None], under[:, None], seed=seed)[0]


def paired_difference(before: Sequence[int], after: Sequence[int]) -> Estimate:
    """Estimate by how much a share of episodes grew, from the same episodes before and after.

    The interval is Newcombe's for paired proportions (1998, method 10): Wilson's of both shares, combined with the
    correlation of the pairs, which is taken closer to 0 for few of them.

    Args:
        before: [episodes], 1 or 0.
        after: The same episodes.

    Raises:
        ValueError: There is no episode, or they are not as many.
    """
    if not before or len(before) != len(after):
        raise ValueError(f"a paired difference needs pairs, got {len(before)} and {len(after)} episodes")
    pairs = len(before)
    both = sum(b and a for b, a in zip(before, after, strict=True))
    won, lost = sum(after) - both, sum(before) - both
    neither = pairs - both - won - lost
    first, second = (_wilson(sum(part) / pairs, pairs) for part in (before, after))
    agreement: float = both * neither - won * lost
    if agreement > 0:
        agreement = max(agreement - pairs / 2, 0.0)
    spread = sum(before) * (pairs - sum(before)) * sum(after) * (pairs - sum(after))
    correlation = agreement / math.sqrt(spread) if spread else 0.0
    down, up = second.value - second.low, second.high - second.value
    difference = second.value - first.value
    return Estimate(
        difference,
        difference - _combined(down, first.high - first.value, correlation),
        difference + _combined(up, first.value - first.low, correlation),
    )


def ratio_estimates(
    numerators: npt.ArrayLike, denominators: npt.ArrayLike, *, resamples: int = 2000, seed: int = 0
) -> list[Estimate]:
    """Estimate ``sum(numerator) / sum(denominator)`` of several figures with percentile-bootstrap intervals.

    Episodes are resampled with replacement, all figures together. A mean over episodes has denominators of 1. The
    interval says how far the figure would move with other tasks of the same kind; it knows nothing of a bias, and of a
    figure that is the same in all episodes it knows nothing at all: its ends are then equal.

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


def _wilson(share: float, episodes: int) -> Estimate:
    """Wilson's score interval of a share."""
    square = _Z**2 / episodes
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    # Exact at the ends, where rounding would leave 1e-17.
    return Estimate(share, 0.0 if share == 0 else middle - half, 1.0 if share == 1 else middle + half)


def _combined(own: float, other: float, correlation: float) -> float:
    return math.sqrt(max(own**2 - 2 * correlation * own * other + other**2, 0.0))


def _ratio(over: npt.NDArray[np.float64], under: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    total = under.sum(axis=0)
    return np.divide(over.sum(axis=0), total, out=np.zeros_like(total), where=total != 0)
