"""From the records of a run to the figures that are printed and saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agent_r1_trainer.bench.intervals import Estimate, ratio_estimates, share_estimate
from agent_r1_trainer.bench.records import EpisodeRecord
from agent_r1_trainer.files import write_json

__all__ = ["Summary", "summarize", "write_summary"]


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
        turns: Mean number of actions.
        invalid_rate: Share of the actions that the env refused.
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
            usage.update(step.get("usage", {}))
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
