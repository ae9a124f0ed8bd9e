"""Several environments in one run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_r1_trainer.environments.factory import EnvArgument, Recipe
from agent_r1_trainer.fields import Count, NonNegative, Positive, check_fields

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
    max_turns: Count | None = None
    weight: NonNegative = 1.0
    reward_scale: Positive = 1.0
    loss_weight: NonNegative = 1.0
    loss_divisor: Positive | None = None

    def __post_init__(self) -> None:
        """Check kinds and ranges.

        Raises:
            ValueError: A weight that is negative or infinite, a reward scale, divisor or number of turns that is not
                positive or infinite, or a field of another kind.
        """
        check_fields(self)


EnvironmentsArgument = EnvArgument | Mapping[str, MixtureEntry | EnvArgument]
"""One environment, or several by name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# With these as a name, `<name>/<metric>` or `eval_<name>_<metric>` would read as a metric of the whole run.
_RESERVED = frozenset(
    "clip_ratio completions eval grad_norm greedy log_ratio loss reward reward_info rollout sampling stop time tokens "
    "turns value".split()
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
