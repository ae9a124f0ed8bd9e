"""Several environments in one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_r1_trainer.environments import EnvArgument, Recipe

__all__ = ["MixtureEntry"]


@dataclass(frozen=True)
class MixtureEntry:
    """One environment of a mixture.

    Attributes:
        env: A registered id, an `EnvSpec`, or a function that returns a new environment at every call.
        kwargs: Arguments of its constructor.
        eval_kwargs: Arguments of the constructor for evaluation; None does not evaluate on this environment.
        recipe: As `StepPOConfig.recipe`; None takes that.
        max_turns: As `StepPOConfig.max_turns`; None takes that.
        weight: Share of a rollout's tasks, relative to the other weights; 0 only evaluates.
        reward_scale: Rewards are multiplied by this before credit is assigned (what is logged is not).
        loss_weight: The policy and value losses of its steps are multiplied by this.
    """

    env: EnvArgument
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    eval_kwargs: Mapping[str, Any] | None = None
    recipe: Recipe | None = None
    max_turns: int | None = None
    weight: float = 1.0
    reward_scale: float = 1.0
    loss_weight: float = 1.0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A negative weight, or a reward scale that is not positive.
        """
        for name in ("weight", "loss_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not self.reward_scale > 0:
            raise ValueError(f"reward_scale must be positive, got {self.reward_scale}")
