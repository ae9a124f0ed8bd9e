"""The chance that at least one of k tries at a task succeeds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from agent_r1_trainer.metrics import EpisodeSummary

__all__ = ["pass_at_k", "pass_metrics", "tries"]


def pass_at_k(samples: int, successes: int, k: int) -> float:
    """Unbiased estimate of pass@k from n samples with c successes: `1 - C(n - c, k) / C(n, k)` (Chen et al. 2021).

    Args:
        samples: n.
        successes: c.
        k: Tries, at most n.

    Raises:
        ValueError: The numbers contradict each other.

    Example:
        >>> round(pass_at_k(4, 1, 2), 6)
        0.5
    """
    if not 0 <= successes <= samples or not 1 <= k <= samples:
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={samples}, c={successes}, k={k}")
    return 1.0 - math.comb(samples - successes, k) / math.comb(samples, k)


def tries(samples: int) -> list[int]:
    """The k that are reported for n samples: the powers of two below n, and n itself."""
    return [*(1 << power for power in range(samples.bit_length()) if 1 << power < samples), samples]


def pass_metrics(episodes: Sequence[EpisodeSummary], samples: int) -> dict[str, float]:
    """`pass@k` of one environment, averaged over its tasks; nothing for one sample of each.

    A task with fewer than k usable episodes says nothing about pass@k; without any other the metric is NaN.

    Args:
        episodes: Of one environment; those of a task have the same group.
        samples: Episodes of each task.
    """
    if samples == 1:
        return {}
    groups: dict[int, list[bool]] = defaultdict(list)
    for episode in episodes:
        if not episode.masked:
            groups[episode.group].append(episode.success)
    metrics = {}
    for k in tries(samples):
        chances = [pass_at_k(len(group), sum(group), k) for group in groups.values() if len(group) >= k]
        metrics[f"pass@{k}"] = math.fsum(chances) / len(chances) if chances else math.nan
    return metrics
