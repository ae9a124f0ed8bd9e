"""Which task comes next: orders, shards and passes through a panel."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from agent_r1_envs.tasks import TaskSet

__all__ = ["Order", "TaskDraws", "task_position"]

Order = Literal["random", "shuffled", "sequential"]


class TaskDraws:
    """Draws positions from one shard of a panel.

    Args:
        size: Number of tasks of the whole panel.
        order: ``"random"`` draws with replacement; ``"shuffled"`` and ``"sequential"`` make passes, in which each task
            of the shard comes once.
        shard: ``(i, n)``: the positions ``i, i + n, i + 2n, ...``.

    Raises:
        ValueError: If the order is unknown or the shard is none, or holds no task.
    """

    def __init__(self, size: int, *, order: Order, shard: Sequence[int]) -> None:
        if order not in get_args(Order):
            raise ValueError(f"order is one of {', '.join(map(repr, get_args(Order)))}, got {order!r}")
        index, count = _checked_shard(shard)
        if index >= size:
            raise ValueError(f"shard {(index, count)} of a panel of {size} tasks is empty")
        self.order: Order = order
        self.shard = (index, count)
        self._positions = range(index, size, count)
        self._drawn = 0  # of the current pass
        self._pass: list[int] | None = None  # a shuffled pass, as indices into the positions

    def draw(self, rng: Callable[[], np.random.Generator]) -> int:
        """Return the next position; ``rng`` is only called where the order needs a random number."""
        if self.order == "random":
            return self._positions[int(rng().integers(len(self._positions)))]
        if self._drawn == len(self._positions):
            self.restart()
        index = self._drawn
        if self.order == "shuffled":
            if self._pass is None:
                self._pass = rng().permutation(len(self._positions)).tolist()
            index = self._pass[index]
        self._drawn += 1
        return self._positions[index]

    def restart(self) -> None:
        """Begin a new pass."""
        self._drawn = 0
        self._pass = None

    def get_state(self) -> dict[str, Any]:
        """Return the state as picklable data that later draws do not change."""
        return {"order": self.order, "shard": self.shard, "drawn": self._drawn, "pass": self._pass}

    @classmethod
    def from_state(cls, size: int, state: dict[str, Any]) -> TaskDraws:
        """Make a sampler that goes on where :meth:`get_state` of one of a panel of the same size was called."""
        sampler = cls(size, order=state["order"], shard=state["shard"])
        sampler._drawn = state["drawn"]
        sampler._pass = state["pass"]
        return sampler


def task_position(tasks: TaskSet[Any], options: Mapping[str, Any] | None) -> int | None:
    """Resolve reset's ``options``: a task that is an int (numpy's too) is a position, one that is a string an id.

    Returns:
        The position in the split, or None if the options choose no task.

    Raises:
        ValueError: If there is an option other than ``"task"``.
        TypeError: If the task is neither an int nor a string.
        IndexError: If the position is not in the split.
        KeyError: If no task has this id.
    """
    unknown = [name for name in options or {} if name != "task"]
    if unknown:
        raise ValueError(f"unknown options {unknown}; the only option is 'task'")
    if not options:
        return None
    choice = options["task"]
    if isinstance(choice, str):
        return tasks.index_of(choice)
    if isinstance(choice, (bool, np.bool_)) or not isinstance(choice, (int, np.integer)):
        raise TypeError(f"options['task'] is a position (int) or an id (str), got {choice!r}")
    position = operator.index(choice)
    if not 0 <= position < len(tasks):
        raise IndexError(
            f"options['task'] is {position}, but split {tasks.split!r} has positions 0 to {len(tasks) - 1}"
        )
    return position


def _checked_shard(shard: Sequence[int]) -> tuple[int, int]:
    """Check ``(i, n)``; a list is welcome, because JSON has no tuples."""
    message = f"shard is a pair (i, n) of ints with 0 <= i < n, got {shard!r}"
    try:
        index, count = map(operator.index, shard)
    except (TypeError, ValueError):
        raise ValueError(message) from None
    if not 0 <= index < count:
        raise ValueError(message)
    return index, count
