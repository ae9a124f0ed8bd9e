"""When failed episodes are the run's business: once is an accident, always is a fault to be mended."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_r1_trainer.environments.contract import ContractError
from agent_r1_trainer.metrics import EpisodeSummary
from agent_r1_trainer.trajectory import StopReason, Trajectory

__all__ = [
    "EpisodeFailedError",
    "FailurePolicy",
    "FailureWatch",
    "TooManyFailuresError",
    "Verdict",
    "commonest",
    "note_closing",
]

_LOGGER = logging.getLogger(__name__)
_LISTED = 5

Verdict = Literal["keep", "retry", "mask", "raise"]


class EpisodeFailedError(RuntimeError):
    """An episode failed where the policy is to raise."""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What becomes of an episode that failed: its environment did, or a reply could not be had.

    What breaks the contract of environments would break it again, so it is never played again; nor is an episode whose
    reply could not be had, because it was asked for wherever it may come from.

    Attributes:
        retries: How often it is played again first, each time in a fresh environment and from the same seeds.
        then: Whether it is masked then, or ends the run.
    """

    retries: int = 0
    then: Literal["mask", "raise"] = "mask"

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ValueError(f"retries must not be negative, got {self.retries}")
        if self.then not in ("mask", "raise"):
            raise ValueError(f"a failed episode can 'mask' or 'raise', got {self.then!r}")

    def verdict(self, trajectory: Trajectory, attempt: int, *, environment: bool = True) -> Verdict:
        """What becomes of an episode that has ended.

        Args:
            trajectory: As it was played.
            attempt: How often it was played again already.
            environment: Whether the environment may be to blame where it failed.
        """
        if trajectory.stop is not StopReason.FAILED:
            return "keep"
        if attempt < self.retries and environment and not trajectory.breach:
            return "retry"
        return self.then

    def check(self, trajectory: Trajectory, attempt: int, *, environment: bool = True) -> bool:
        """Whether to play an episode again; for the arguments see `verdict`.

        Raises:
            EpisodeFailedError: It failed, and the policy is to raise.
        """
        verdict = self.verdict(trajectory, attempt, environment=environment)
        if verdict == "raise":
            tries = f" in {attempt + 1} attempts" if attempt else ""
            env = f" of {trajectory.env}" if trajectory.env else ""
            raise EpisodeFailedError(
                f"an episode of task {trajectory.task_id!r}{env} failed{tries}: {trajectory.error}. env_failure='mask' "
                "(of a flow of your own: failures=FailurePolicy(then='mask')) leaves such episodes out and goes on"
            )
        return verdict == "retry"


def note_closing(trajectory: Trajectory, error: str) -> None:
    """Add to what an episode failed of that its environment could not even be closed; nothing if `error` is empty."""
    if error:
        trajectory.error += f"; closing the environment then failed too: {error}"


class TooManyFailuresError(RuntimeError):
    """More episodes failed than a run may go on with; the message lists the commonest errors."""


class FailureWatch:
    """Decides, from the episodes of all processes and so alike in each, whether a run can go on.

    An environment that breaks its contract the first time that it is played was never right: its author should hear of
    it at once. Later the same thing costs its own episode. Whatever the reason, a batch that is mostly failures is no
    sample of what the policy does any more, and most of its price was paid for nothing.

    Args:
        limit: Largest share of masked episodes; 1 goes on with none at all, unless it is the very first time.
        speaks: Whether this process warns of those that are masked.
    """

    def __init__(self, limit: float, *, speaks: bool = True) -> None:
        self._limit = limit
        self._speaks = speaks
        self._proven: set[str] = set()

    def trust(self, envs: Iterable[str]) -> None:
        """Take environments for proven: those of a run that is resumed were played before."""
        self._proven.update(envs)

    def check(self, episodes: Sequence[EpisodeSummary], what: str) -> None:
        """Look at the episodes of a rollout or an evaluation.

        Args:
            episodes: Of all processes.
            what: What they are called in errors, such as `"rollout 3"`.

        Raises:
            ContractError: An environment that was never played before broke its contract.
            TooManyFailuresError: More than the limit are masked.
        """
        breaches = [episode for episode in episodes if episode.breach and episode.env not in self._proven]
        if breaches:
            raise ContractError(
                f"{what} is the first to play here, and {len(breaches)} of its {len(episodes)} episodes broke the "
                f"contract of environments (docs/environments.md):{commonest(breaches)}"
            )
        masked = [episode for episode in episodes if episode.masked]
        share = len(masked) / max(len(episodes), 1)
        if share > self._limit or (share == 1.0 and not self._proven):
            raise TooManyFailuresError(
                f"{len(masked)} of the {len(episodes)} episodes of {what} could not be used, more than "
                f"max_masked_ratio={self._limit:g} allows:{commonest(masked)}"
                if share > self._limit
                else f"no episode of {what}, the first, could be used:{commonest(masked)}"
            )
        if masked and self._speaks:
            text = "%d of the %d episodes of %s failed and are left out:%s"
            _LOGGER.warning(text, len(masked), len(episodes), what, commonest(masked))
        self._proven.update(episode.env for episode in episodes)


def commonest(episodes: Sequence[EpisodeSummary]) -> str:
    """The commonest errors with their counts, a line each; errors that differ in numbers only are one."""
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for episode in episodes:
        error = episode.error or f"stopped by {episode.stop.value}, with no reason given"
        kind = (episode.env, re.sub(r"\d+", "0", error))
        counts[kind] += 1
        examples.setdefault(kind, error)
    lines = [
        f"\n  {count} x {f'{kind[0]}: ' if kind[0] else ''}{examples[kind]}"
        for kind, count in counts.most_common(_LISTED)
    ]
    more = len(counts) - len(lines)
    return "".join(lines) + (f"\n  and {more} other kinds of errors" if more else "")
