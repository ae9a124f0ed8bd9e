"""What is kept of an episode of a benchmark run: one line of JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

__all__ = ["EpisodeRecord", "Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """An episode to play.

    Attributes:
        episode: Its number in the run, from 0.
        task: Position of its task in the split; None for an env without a panel of tasks.
        seed: Seed of its reset and of the agent's choices; a function of the run's seed and ``episode``.
    """

    episode: int
    task: int | None
    seed: int


@dataclass(frozen=True)
class EpisodeRecord:
    """The outcome of one episode.

    Attributes:
        episode: Number of the episode.
        task_id: Id of its task, as the env reports it.
        seed: The seed it was played with.
        success: Whether the benchmark counts the task as solved.
        score: The benchmark's metric, from 0 to 1.
        reward: Sum of the rewards.
        turns: Number of actions.
        invalid: Number of actions that the env refused.
        stop: ``"terminated"``, ``"turn_limit"``, ``"prompt_too_long"`` or ``"failed"``.
        seconds: Wall-clock time.
        error: Why it failed; ``""`` when it did not.
        reward_info: Components of the score at the end.
        protocol: What makes the score comparable, as the env reports it at reset; empty if it does not.
        steps: The transcript: per turn ``action`` (what the agent wrote), ``reward`` and, where there is one,
            ``observation`` (the answer), ``invalid`` (the reason) and ``usage`` (counts of a model's tokens).
    """

    episode: int
    task_id: str
    seed: int
    success: bool
    score: float
    reward: float
    turns: int
    invalid: int
    stop: str
    seconds: float = 0.0
    error: str = ""
    reward_info: dict[str, float] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether the env or the agent broke down, so that the episode says nothing about the agent's skill."""
        return bool(self.error)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Any) -> EpisodeRecord:
        """Read a record; unknown keys are left out, so that later versions may add some.

        Raises:
            ValueError: The row is no record.
        """
        if not isinstance(row, dict):
            raise ValueError(f"expected an object, got {type(row).__name__}")
        try:
            return cls(**{f.name: row[f.name] for f in fields(cls) if f.name in row})
        except TypeError as error:
            raise ValueError(str(error)) from error
