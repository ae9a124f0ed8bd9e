"""Advantage estimators by name, and the options that each takes.

An estimator is a pure function ``(batch, *, gamma, lam, ...) -> Credit``: it reads a `CreditBatch`, draws no random
number and whitens or normalises as its own definition says, so the trainer never has to know which one it runs. Its
further keyword-only parameters are the options that a configuration may set. A batch without trajectories is allowed.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from agent_r1_trainer.credit.batch import Credit, CreditBatch
from agent_r1_trainer.fields import fits

__all__ = [
    "ESTIMATORS",
    "Estimator",
    "EstimatorFunction",
    "EstimatorRegistry",
    "Level",
    "check_options",
    "get",
    "names",
    "options_of",
    "register",
]

Level = Literal["step", "token"]


class EstimatorFunction(Protocol):
    """The signature of an estimator; one that has no use for ``gamma`` or ``lam`` ignores it."""

    def __call__(self, batch: CreditBatch, *, gamma: float, lam: float) -> Credit:
        """Return the credit of every step, or token, of the batch."""


_Function = TypeVar("_Function", bound=EstimatorFunction)


@dataclass(frozen=True, slots=True)
class Estimator:
    """A registered estimator; call it as the function itself.

    Attributes:
        name: Its name in a configuration.
        function: The pure function.
        needs_values: It reads the critic's values (``batch.values``, or ``batch.token_values`` at level "token") and
            returns targets for a critic. Without it no critic is built and no value computed.
        level: Whether it gives one advantage (and target) a step, or one a response token.
        needs_anchors: It reads ``batch.anchors``.
        needs_groups: It compares the samples of a task: with one sample each, all advantages would be 0.
        options: Its keyword-only parameters beyond ``gamma`` and ``lam``, with their defaults.
    """

    name: str
    function: Callable[..., Credit]
    needs_values: bool
    level: Level = "step"
    needs_anchors: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    needs_groups: bool = False

    def __call__(self, batch: CreditBatch, *, gamma: float, lam: float, **options: Any) -> Credit:
        """Return the credit of every step, or token, of the batch.

        Raises:
            ValueError: An unknown option or a bad value; an answer that does not fit the batch.
        """
        check_options(self.name, self.options, options)
        credit = self.function(batch, gamma=gamma, lam=lam, **options)
        expected = batch.rewards.size if self.level == "step" else batch.num_tokens
        sizes = [credit.advantages.size] + ([] if credit.returns is None else [credit.returns.size])
        if any(size != expected for size in sizes) or (self.needs_values and credit.returns is None):
            what = "advantages and returns" if self.needs_values else "advantages"
            raise ValueError(
                f"the advantage estimator {self.name!r} must give {what} of {expected} entries (level {self.level!r}), "
                f"got {', '.join(map(str, sizes))}"
            )
        return credit

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse options now that a call would refuse later; the function's own checks run too, on an empty batch.

        Without options there is nothing to check, and the function is not called.

        Raises:
            ValueError: An unknown option or a bad value; the message lists the options there are.
        """
        check_options(self.name, self.options, options)
        if not options:
            return
        none = np.zeros(0)
        numbers = np.zeros(0, dtype=np.int64)
        empty = CreditBatch(none, none, numbers, none, numbers, token_values=none, anchors=numbers)
        self(empty, gamma=1.0, lam=1.0, **options)


class EstimatorRegistry:
    """A table of estimators by name."""

    def __init__(self) -> None:
        self._table: dict[str, Estimator] = {}

    def register(
        self,
        name: str,
        *,
        needs_values: bool,
        level: Level = "step",
        needs_anchors: bool = False,
        needs_groups: bool = False,
    ) -> Callable[[_Function], _Function]:
        """Return a decorator that enters a function under ``name`` and leaves it as it is.

        Args:
            name: Its name in a configuration.
            needs_values: It reads the critic's values and returns targets.
            level: ``"step"`` or ``"token"``.
            needs_anchors: It compares steps that saw the same state.
            needs_groups: It compares samples of a task, so that a run with one sample of each is refused.

        Raises:
            ValueError: The name is taken by another function; an unknown level; a function that does not take ``gamma``
                and ``lam`` by keyword, or has an option without a default.

        An estimator of your own, which a configuration then finds as ``advantage_estimator="last_reward"``:

        >>> import numpy as np
        >>> from agent_r1_trainer import credit
        >>> registry = credit.EstimatorRegistry()  # `credit.register` enters it into the one that the trainer reads
        >>> @registry.register("last_reward", needs_values=False)
        ... def last_reward(batch, *, gamma, lam, scale: float = 1.0):
        ...     last = np.zeros(batch.groups.size)
        ...     last[batch.trajectory] = batch.rewards  # of two steps of one trajectory the later one stays
        ...     return credit.Credit(advantages=scale * credit.whiten(last[batch.trajectory]))
        >>> batch = credit.CreditBatch(
        ...     rewards=[9, 1, 0], values=[0, 0, 0], trajectory=[0, 0, 1], final_values=[0, 0], groups=[0, 0]
        ... )
        >>> registry.get("last_reward")(batch, gamma=1.0, lam=1.0, scale=2.0).advantages.round(3).tolist()
        [1.414, 1.414, -2.828]
        >>> registry.get("last_reward")(batch, gamma=1.0, lam=1.0, size=2.0)
        Traceback (most recent call last):
        ValueError: the advantage estimator 'last_reward' has no option 'size'; its options are: scale=1.0
        """
        if level not in ("step", "token"):
            raise ValueError(f"the level of the advantage estimator {name!r} must be 'step' or 'token', got {level!r}")

        def enter(function: _Function) -> _Function:
            taken = self._table.get(name)
            if taken is not None and taken.function is not function:
                raise ValueError(f"the advantage estimator {name!r} is already registered")
            options = options_of(name, function)
            self._table[name] = Estimator(name, function, needs_values, level, needs_anchors, options, needs_groups)
            return function

        return enter

    def get(self, name: str) -> Estimator:
        """Return the estimator called ``name``.

        Raises:
            ValueError: There is none; the message lists the names there are.
        """
        try:
            return self._table[name]
        except KeyError:
            known = ", ".join(self.names())
            raise ValueError(f"unknown advantage estimator {name!r}; the known ones are: {known}") from None

    def names(self) -> list[str]:
        """Return the known names, sorted."""
        return sorted(self._table)


ESTIMATORS = EstimatorRegistry()
register = ESTIMATORS.register
get = ESTIMATORS.get
names = ESTIMATORS.names


def options_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Read the options and their defaults off a function's signature.

    Args:
        name: Of the estimator, for messages.
        function: Takes the batch, ``gamma`` and ``lam`` by keyword, and the options.

    Raises:
        ValueError: ``gamma`` or ``lam`` is missing, or a further parameter is not keyword-only with a default.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if not {"gamma", "lam"} <= {parameter.name for parameter in parameters}:
        raise ValueError(f"the advantage estimator {name!r} must take gamma and lam: (batch, *, gamma, lam, ...)")
    further = [parameter for parameter in parameters if parameter.name not in ("gamma", "lam")]
    for parameter in further:
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
            raise ValueError(
                f"{parameter.name!r} of the advantage estimator {name!r} must be a keyword-only parameter with a "
                "default: (batch, *, gamma, lam, option=default)"
            )
    return {parameter.name: parameter.default for parameter in further}


def check_options(name: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse options that there are not, and values of another kind than the default.

    A float takes whole numbers too, but nothing that is not finite; a default of None takes anything.

    Args:
        name: Of the estimator, for messages.
        known: The options with their defaults.
        given: What was set.

    Raises:
        ValueError: With the list of the options.
    """
    listed = ", ".join(f"{option}={default!r}" for option, default in known.items())
    ending = f"its options are: {listed}" if listed else "it has none"
    for option, value in given.items():
        if option not in known:
            raise ValueError(f"the advantage estimator {name!r} has no option {option!r}; {ending}")
        kind, infinite = type(known[option]), isinstance(value, float) and math.isinf(value)
        if known[option] is not None and (infinite or not fits(value, kind)):
            raise ValueError(
                f"{option} of the advantage estimator {name!r} must be a {kind.__name__}, got {value!r}; {ending}"
            )
