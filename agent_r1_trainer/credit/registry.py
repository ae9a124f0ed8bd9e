"""Advantage estimators by name.

An estimator is a pure function ``(batch, *, gamma, lam) -> Credit``: it reads a `CreditBatch`, draws no random number
and whitens or normalises as its own definition says, so the trainer never has to know which one it runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agent_r1_trainer.credit.batch import Credit, CreditBatch

__all__ = ["ESTIMATORS", "Estimator", "EstimatorFunction", "EstimatorRegistry", "get", "names", "register"]


class EstimatorFunction(Protocol):
    """The signature of an estimator; one that has no use for ``gamma`` or ``lam`` ignores it."""

    def __call__(self, batch: CreditBatch, *, gamma: float, lam: float) -> Credit:
        """Return the credit of every step of the batch."""


@dataclass(frozen=True, slots=True)
class Estimator:
    """A registered estimator; call it as the function itself.

    Attributes:
        name: Its name in a configuration.
        function: The pure function.
        needs_values: It reads ``batch.values`` and returns targets for a critic.
    """

    name: str
    function: EstimatorFunction
    needs_values: bool

    def __call__(self, batch: CreditBatch, *, gamma: float, lam: float) -> Credit:
        """Return the credit of every step of the batch."""
        return self.function(batch, gamma=gamma, lam=lam)


class EstimatorRegistry:
    """A table of estimators by name."""

    def __init__(self) -> None:
        self._table: dict[str, Estimator] = {}

    def register(self, name: str, *, needs_values: bool) -> Callable[[EstimatorFunction], EstimatorFunction]:
        """Return a decorator that enters a function under ``name`` and leaves it as it is.

        Raises:
            ValueError: The name is taken by another function.
        """

        def enter(function: EstimatorFunction) -> EstimatorFunction:
            taken = self._table.get(name)
            if taken is not None and taken.function is not function:
                raise ValueError(f"the advantage estimator {name!r} is already registered")
            self._table[name] = Estimator(name, function, needs_values)
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
