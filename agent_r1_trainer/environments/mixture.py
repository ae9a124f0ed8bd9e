"""Several environments in one run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_r1_trainer.environments.factory import EnvArgument, Recipe

__all__ = ["EnvironmentsArgument", "MixtureEntry", "mixture_entries"]


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
        loss_divisor: As `StepPOConfig.loss_divisor`; None takes that.
    """

    env: EnvArgument
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    eval_kwargs: Mapping[str, Any] | None = None
    recipe: Recipe | None = None
    max_turns: int | None = None
    weight: float = 1.0
    reward_scale: float = 1.0
    loss_weight: float = 1.0
    loss_divisor: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A weight that is negative or infinite, or a reward scale or divisor that is not positive or
                infinite.
        """
        for name in ("weight", "loss_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number of at least 0, got {getattr(self, name)}")
        if not 0 < self.reward_scale < math.inf:
            raise ValueError(f"reward_scale must be a positive number, got {self.reward_scale}")
        if self.loss_divisor is not None and not 0 < self.loss_divisor < math.inf:
            raise ValueError(f"loss_divisor must be a positive number or None, got {self.loss_divisor}")


EnvironmentsArgument = EnvArgument | Mapping[str, MixtureEntry | EnvArgument]
"""One environment, or several by name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# With these as a name, `<name>/<metric>` or `eval_<name>_<metric>` would read as a metric of the whole run.
_RESERVED = frozenset(
    "clip_ratio completions eval grad_norm greedy log_ratio loss reward reward_info sampling stop time tokens turns "
    "value".split()
)


def mixture_entries(
    env: EnvironmentsArgument, kwargs: Mapping[str, Any] | None = None, eval_kwargs: Mapping[str, Any] | None = None
) -> dict[str, MixtureEntry]:
    """The environments of a run by name; a single one has the empty name.

    Args:
        env: One environment, or several by name.
        kwargs: Arguments of a single environment's constructor.
        eval_kwargs: The same for evaluation, None for no evaluation.

    Raises:
        ValueError: A mixture without environments or without a positive weight, a name that makes no good name of a
            metric, or arguments that would belong to no environment.
    """
    if not isinstance(env, Mapping):
        return {"": MixtureEntry(env, kwargs=kwargs or {}, eval_kwargs=eval_kwargs)}
    if kwargs or eval_kwargs is not None:
        raise ValueError(
            "env_kwargs and eval_env_kwargs have no meaning in a mixture: set kwargs and eval_kwargs of each entry"
        )
    for name in env:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RESERVED:
            raise ValueError(
                f"{name!r} cannot name an environment of a mixture, since it begins the names of its metrics: take "
                f"letters, digits, '_', '-' and '.', and none of {', '.join(sorted(_RESERVED))}"
            )
    entries = {name: e if isinstance(e, MixtureEntry) else MixtureEntry(e) for name, e in env.items()}
    if not any(entry.weight > 0 for entry in entries.values()):
        raise ValueError(f"a mixture needs an environment with a positive weight, got {list(entries) or 'none at all'}")
    return entries
