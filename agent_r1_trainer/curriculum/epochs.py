"""The tasks of a run without a curriculum: a pure function of the seed and the number of the rollout.

In a mixture, so is the environment that each task belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from agent_r1_trainer.curriculum.sampler import GroupResult
from agent_r1_trainer.seeds import derive_seed

__all__ = ["TaskCursor", "allocate"]


class TaskCursor:
    """Walks through the panels of tasks epoch after epoch, each epoch in an order of its own.

    Each environment of a mixture has its own epochs: it gets its share of every rollout's tasks and goes on in its
    panel where the last rollout stopped. Nothing is remembered: the order of an epoch follows from `(seed, epoch)` and
    the position from the number of the rollout, so a resumed run needs no state and cannot replay an old epoch's order.

    Args:
        panels: Size of each environment's panel; None if it has none and tasks differ by their seeds only.
        groups: Different tasks in a rollout.
        seed: Seed of the run.
        weights: Share of each environment, relative to the others; None makes them equal.
    """

    def __init__(
        self, panels: Mapping[str, int | None], *, groups: int, seed: int, weights: Mapping[str, float] | None = None
    ) -> None:
        self._panels = dict(panels)
        self._groups = groups
        self._seed = seed
        self._weights = {name: 1.0 if weights is None else weights[name] for name in panels}
        self._orders: dict[str, tuple[int, np.ndarray]] = {}

    def order(self, epoch: int, env: str = "") -> np.ndarray:
        """Positions of an environment's tasks in the order of an epoch, int64 [size of the panel].

        Raises:
            ValueError: The environment has no panel.
        """
        size = self._panels[env]
        if size is None:
            raise ValueError("there is no panel to order")
        parts = [self._seed, epoch, derive_seed(env)] if env else [self._seed, epoch]
        return np.random.default_rng(parts).permutation(size)

    def assignments(self, rollout: int) -> list[tuple[str, int | None]]:
        """Environment and task of each group of a rollout.

        The epochs follow one another without a gap: a rollout may end one and begin the next.
        """
        return [
            (env, self._task(env, position))
            for env, position in allocate(self._weights, rollout * self._groups, self._groups)
        ]

    def observe(self, rollout: int, results: Sequence[GroupResult]) -> None:
        """Nothing depends on results."""

    def state_dict(self) -> dict[str, Any]:
        """There is no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is no state."""

    def _task(self, env: str, position: int) -> int | None:
        size = self._panels[env]
        if size is None:
            return None
        epoch, offset = divmod(position, size)
        if self._orders.get(env, (-1,))[0] != epoch:
            self._orders[env] = (epoch, self.order(epoch, env))
        return int(self._orders[env][1][offset])


def allocate(weights: Mapping[str, float], first: int, count: int) -> list[tuple[str, int]]:
    """The environments of the tasks number `first` to `first + count` of a run, a pure function of these numbers.

    Every environment gets its share of the tasks and is never far from it: what is left over is carried on. Task `k` of
    an environment of share `s` is due at `(k + 1/2) / s`, and tasks are taken in the order in which they are due
    (Webster's method). With whole weights of sum `W` the shares are exact after every `W` tasks, and the environments
    alternate as evenly as they can, so that a process which takes a part of a rollout gets all of them.

    Args:
        weights: Positive weight of each environment, relative to the others.
        first: Tasks of the run before these.
        count: How many.

    Returns:
        Name of the environment and number of its own tasks before, for each task.

    Raises:
        ValueError: No weight is positive.

    Example:
        >>> allocate({"a": 2, "b": 1}, 0, 6)
        [('a', 0), ('b', 0), ('a', 1), ('a', 2), ('b', 1), ('a', 3)]
    """
    total = sum(Fraction(weight) for weight in weights.values())
    shares = {name: Fraction(weight) / total for name, weight in weights.items() if weight > 0} if total > 0 else {}
    if not shares:
        raise ValueError(f"at least one environment needs a positive weight, got {dict(weights)}")
    # Everything that is due this early is surely among the first tasks; from here on they are counted one by one.
    early = max(Fraction(0), first - Fraction(len(shares), 2))
    taken = {name: math.floor(share * early + Fraction(1, 2)) for name, share in shares.items()}
    due = {name: (taken[name] + Fraction(1, 2)) / share for name, share in shares.items()}
    found = []
    for number in range(sum(taken.values()), first + count):
        name = min(due, key=due.__getitem__)
        if number >= first:
            found.append((name, taken[name]))
        taken[name] += 1
        due[name] += 1 / shares[name]
    return found
