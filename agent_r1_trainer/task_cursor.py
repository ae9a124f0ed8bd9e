"""Which tasks a rollout works on: a pure function of the seed and the number of the rollout."""

from __future__ import annotations

import numpy as np

from agent_r1_trainer.flows.base import Assignment
from agent_r1_trainer.seeds import derive_seed

__all__ = ["TaskCursor"]


class TaskCursor:
    """Walks through a panel of tasks epoch after epoch, each epoch in an order of its own.

    Nothing is remembered: the order of an epoch follows from `(seed, epoch)` and the position from the number of the
    rollout, so a resumed run needs no state and cannot replay an old epoch's order.

    Args:
        num_tasks: Size of the panel; None if the environment has none and tasks differ by their seeds only.
        seed: Seed of the run.
        groups: Different tasks in a rollout.
        samples: Episodes of each.
    """

    def __init__(self, num_tasks: int | None, *, seed: int, groups: int, samples: int = 1) -> None:
        if num_tasks is not None and num_tasks < 1:
            raise ValueError("the environment's panel of tasks is empty")
        self.num_tasks = num_tasks
        self.seed = seed
        self.groups = groups
        self.samples = samples

    @property
    def rollouts_per_epoch(self) -> int | None:
        """Whole rollouts in one pass over the panel, at least 1; None without a panel."""
        return None if self.num_tasks is None else max(1, self.num_tasks // self.groups)

    def order(self, epoch: int) -> np.ndarray:
        """Positions of the tasks in the order of an epoch, int64 [num_tasks]."""
        if self.num_tasks is None:
            raise ValueError("there is no panel to order")
        return np.random.default_rng([self.seed, epoch]).permutation(self.num_tasks)

    def assignments(self, rollout: int) -> list[Assignment]:
        """The episodes of a rollout, all processes together, group after group.

        The epochs follow one another without a gap: a rollout may end one and begin the next.
        """
        tasks = self._tasks(rollout)
        return [
            Assignment(task=task, seed=derive_seed(self.seed, "rollout", rollout, group), group=group, sample=sample)
            for group, task in enumerate(tasks)
            for sample in range(self.samples)
        ]

    def _tasks(self, rollout: int) -> list[int | None]:
        if self.num_tasks is None:
            return [None] * self.groups
        first = rollout * self.groups
        orders: dict[int, np.ndarray] = {}
        tasks: list[int | None] = []
        for position in range(first, first + self.groups):
            epoch, offset = divmod(position, self.num_tasks)
            if epoch not in orders:
                orders[epoch] = self.order(epoch)
            tasks.append(int(orders[epoch][offset]))
        return tasks
