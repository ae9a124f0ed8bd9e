"""How far a rollout is: plain numbers, which a display may read while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

__all__ = ["RolloutProgress"]


@dataclass(slots=True)
class RolloutProgress:
    """Counts of one process.

    Attributes:
        episodes: To be played.
        done: Played to their end, those that failed among them.
        turns: Replies that were passed on.
        tokens: Of these replies.
        environment: Seconds that episodes waited for their environments, all episodes together.
        generation: Seconds that episodes waited for replies, all together.
        masked: Episodes that failed for good.
        retried: Failed attempts that were played again.
        timeouts: Calls of an environment that took longer than they may.
        crashes: Environments that took their process or thread with them.
        lost_replies: Replies that could not be had.
        hung_threads: Threads that are left behind in an environment that does not return, at this time.
        late: Results that came after their episode had been given up; nobody reads them.
        begun: When the rollout began, by `time.perf_counter`.
        ended: When it ended; None while it runs.
    """

    episodes: int = 0
    done: int = 0
    turns: int = 0
    tokens: int = 0
    environment: float = 0.0
    generation: float = 0.0
    masked: int = 0
    retried: int = 0
    timeouts: int = 0
    crashes: int = 0
    lost_replies: int = 0
    hung_threads: int = 0
    late: int = 0
    begun: float = field(default_factory=time.perf_counter)
    ended: float | None = None

    @property
    def seconds(self) -> float:
        """How long the rollout has taken, so far or in all."""
        return (time.perf_counter() if self.ended is None else self.ended) - self.begun

    @property
    def tokens_per_second(self) -> float:
        """Sampled tokens a second of the rollout."""
        return self.tokens / max(self.seconds, 1e-9)

    @property
    def environment_share(self) -> float:
        """Share of the episodes' waiting that was for environments; the rest was for replies."""
        return self.environment / max(self.environment + self.generation, 1e-9)

    @property
    def rates(self) -> dict[str, float]:
        """What a log says of the speed, as metrics."""
        return {
            "rollout/tokens_per_second": self.tokens_per_second,
            "rollout/environment_share": self.environment_share,
            "rollout/generation_share": self.generation / max(self.environment + self.generation, 1e-9),
        }

    @property
    def failures(self) -> dict[str, float]:
        """What went wrong, as metrics that may be added over processes."""
        return {
            "rollout/retried": float(self.retried),
            "rollout/timeouts": float(self.timeouts),
            "rollout/crashes": float(self.crashes),
            "rollout/lost_replies": float(self.lost_replies),
            "rollout/hung_threads": float(self.hung_threads),
        }

    def __str__(self) -> str:
        """A line for a display."""
        return (
            f"{self.done} of {self.episodes} episodes, {self.turns} turns, {self.tokens_per_second:.0f} tokens/s, "
            f"{self.environment_share:.0%} of the waiting for environments"
        )
