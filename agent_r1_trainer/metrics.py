"""What is reported about episodes, pass@k included, and the store that holds metrics until the next log."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent_r1_trainer.trajectory import StopReason, Trajectory

__all__ = [
    "EpisodeSummary",
    "MetricStore",
    "by_environment",
    "episode_metrics",
    "mixture_metrics",
    "pass_at_k",
    "pass_metrics",
    "summarize",
    "tries",
]


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """The numbers of one episode that every rank gets.

    Attributes:
        reward: Undiscounted return, unscaled.
        success: The environment's verdict.
        score: The benchmark's metric.
        stop: Why it ended.
        masked: It is left out of training.
        lengths: Tokens of each reply.
        cut: Replies that ran out of tokens.
        invalid: Replies that the environment called invalid.
        tokens: Tokens of the longest prompt and its reply.
        reward_info: Components of the score.
        env: Name of its environment in a mixture.
        group: Number of its task within the batch.
        error: What went wrong, if it failed.
        breach: Its environment broke the contract.
        repaired: Texts of its environment that had to be repaired.
        split_tokens: Marks of turns in its prompts that others wrote and that were split.
    """

    reward: float
    success: bool
    score: float
    stop: StopReason
    masked: bool
    lengths: list[int]
    cut: int
    invalid: int
    tokens: int
    reward_info: dict[str, float]
    env: str = ""
    group: int = 0
    error: str = ""
    breach: bool = False
    repaired: int = 0
    split_tokens: int = 0


def summarize(trajectory: Trajectory) -> EpisodeSummary:
    """Summarise one trajectory."""
    steps = trajectory.steps
    return EpisodeSummary(
        reward=trajectory.total_reward,
        success=trajectory.success,
        score=trajectory.score,
        stop=trajectory.stop,
        masked=trajectory.masked,
        lengths=[len(step.response_ids) for step in steps],
        cut=sum(step.finish == "length" for step in steps),
        invalid=sum(step.invalid for step in steps),
        tokens=max((len(step.prompt_ids) + len(step.response_ids) for step in steps), default=0),
        reward_info=trajectory.reward_info,
        env=trajectory.env,
        group=trajectory.group,
        error=trajectory.error,
        breach=trajectory.breach,
        repaired=trajectory.repaired,
        split_tokens=trajectory.split_tokens,
    )


def episode_metrics(episodes: Sequence[EpisodeSummary]) -> dict[str, float]:
    """Metrics of a set of episodes of all ranks.

    Masked episodes count in `masked_ratio` and in `stop/...` only. With no other episode the rest is NaN.
    """
    kept = [episode for episode in episodes if not episode.masked]
    lengths = [length for episode in kept for length in episode.lengths]
    replies = max(len(lengths), 1)
    turns = [len(episode.lengths) for episode in kept]
    metrics = {
        "reward": _mean(episode.reward for episode in kept),
        "reward_std": float(np.std([episode.reward for episode in kept])) if kept else math.nan,
        "success": _mean(episode.success for episode in kept),
        "score": _mean(episode.score for episode in kept),
        "turns/mean": _mean(turns),
        "turns/max": float(max(turns, default=0)),
        "stalled_ratio": _mean(episode.stop is StopReason.TURN_LIMIT and not episode.success for episode in kept),
        "invalid_ratio": sum(episode.invalid for episode in kept) / replies,
        "masked_ratio": _mean(episode.masked for episode in episodes),
        "repaired_ratio": _mean(episode.repaired > 0 for episode in kept),
        "completions/mean_length": _mean(lengths),
        "completions/min_length": float(min(lengths, default=0)),
        "completions/max_length": float(max(lengths, default=0)),
        "completions/clipped_ratio": sum(episode.cut for episode in kept) / replies,
        "prompts/split_tokens": float(sum(episode.split_tokens for episode in episodes)),
        "tokens/longest_sequence": float(max((episode.tokens for episode in kept), default=0)),
        "steps": float(len(lengths)),
    }
    for reason in StopReason:
        metrics[f"stop/{reason.value}"] = _mean(episode.stop is reason for episode in episodes)
    names = sorted({name for episode in kept for name in episode.reward_info})
    for name in names:
        values = [episode.reward_info[name] for episode in kept if name in episode.reward_info]
        metrics[f"reward_info/{name}"] = _mean(values)
    return metrics


def by_environment(episodes: Sequence[EpisodeSummary]) -> dict[str, list[EpisodeSummary]]:
    """The episodes of each environment, names in order."""
    names = sorted({episode.env for episode in episodes})
    return {name: [episode for episode in episodes if episode.env == name] for name in names}


def mixture_metrics(episodes: Sequence[EpisodeSummary]) -> dict[str, float]:
    """Metrics of all episodes together, and in a mixture those of each environment as `<name>/<metric>`."""
    metrics = episode_metrics(episodes)
    for name, part in by_environment(episodes).items():
        if name:
            metrics.update({f"{name}/{metric}": value for metric, value in episode_metrics(part).items()})
    return metrics


_COUNTERS = frozenset({"num_tokens", "policy_version", "skipped_updates"})


class MetricStore:
    """Collects metrics between two logs and averages them, counters aside; NaN counts as not measured.

    Its state goes into checkpoints, so that a resumed run logs what the uninterrupted one does.
    """

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = defaultdict(list)

    def add(self, metrics: Mapping[str, float]) -> None:
        """Add one measurement of each metric."""
        for name, value in metrics.items():
            self._values[name].append(float(value))

    def flush(self) -> dict[str, float]:
        """Return the means, of counters the latest, and forget all; a metric that was always NaN is left out."""
        means = {}
        for name, values in self._values.items():
            known = [value for value in values if not math.isnan(value)]
            if known:
                means[name] = known[-1] if name in _COUNTERS else sum(known) / len(known)
        self._values.clear()
        return means

    def state_dict(self) -> dict[str, Any]:
        """The measurements since the last log, as plain data."""
        return {name: list(values) for name, values in self._values.items()}

    def load_state_dict(self, state: Mapping[str, Sequence[float]]) -> None:
        """Restore what `state_dict` gave."""
        self._values.clear()
        for name, values in state.items():
            self._values[name] = list(values)


def _mean(values: Iterable[float | bool]) -> float:
    numbers = [float(value) for value in values]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


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
