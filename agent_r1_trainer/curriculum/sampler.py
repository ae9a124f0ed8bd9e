"""What decides which tasks a rollout works on, and how it hears of the results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from agent_r1_trainer.flows.base import Assignment
from agent_r1_trainer.metrics import EpisodeSummary
from agent_r1_trainer.seeds import derive_seed

__all__ = ["GroupResult", "TaskSampler", "group_assignments", "group_results", "rollouts_per_epoch"]


@dataclass(frozen=True, slots=True)
class GroupResult:
    """How a rollout's episodes of one task went.

    Attributes:
        env: Name of the environment; empty where there is one only.
        task: Position in its panel, None without one.
        reward: Mean undiscounted return, unscaled.
        success: Share of successes.
        episodes: How many could be used.
    """

    env: str
    task: int | None
    reward: float
    success: float
    episodes: int


@runtime_checkable
class TaskSampler(Protocol):
    """A curriculum. Each process has a copy, and all copies must decide alike: all randomness comes from seeds.

    To resume exactly, `assignments` must follow from the arguments of the constructor, the number of the rollout and
    the state alone. One rollout's `assignments` is asked for once, then its results are observed, then the next one's.
    """

    def assignments(self, rollout: int) -> Sequence[tuple[str, int | None]]:
        """Choose environment and task (position in its panel, None without one) of each group of a rollout."""

    def observe(self, rollout: int, results: Sequence[GroupResult]) -> None:
        """Hear how the groups of a rollout went, in order; a group without a usable episode is left out."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON data, for a checkpoint."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""


def rollouts_per_epoch(panels: Mapping[str, int | None], groups: int) -> int | None:
    """Whole rollouts that hold as many tasks as all panels together, at least 1; None where a panel is missing."""
    sizes = list(panels.values())
    known = [size for size in sizes if size is not None]
    return max(1, sum(known) // groups) if len(known) == len(sizes) else None


def group_assignments(
    tasks: Sequence[tuple[str, int | None]],
    *,
    rollout: int,
    panels: Mapping[str, int | None],
    groups: int,
    samples: int,
    seed: int,
) -> list[Assignment]:
    """The episodes of a rollout, all processes together, group after group.

    Args:
        tasks: What a sampler chose.
        rollout: Number of the rollout.
        panels: Sizes of the panels.
        groups: How many tasks there must be.
        samples: Episodes of each.
        seed: Seed of the run.

    Raises:
        ValueError: The sampler chose too many or too few tasks, or one that does not exist.
    """
    if len(tasks) != groups:
        raise ValueError(f"the task sampler gave {len(tasks)} tasks for rollout {rollout}, which needs {groups}")
    assignments = []
    for group, (env, task) in enumerate(tasks):
        if env not in panels:
            raise ValueError(
                f"the task sampler chose the environment {env!r}; there are {', '.join(map(repr, panels))}"
            )
        size = panels[env]
        if isinstance(task, bool) or not isinstance(task, (int, np.integer, type(None))):
            raise ValueError(f"the task sampler chose task {task!r} of the environment {env!r}: it must be an integer")
        if (task is None) != (size is None) or (task is not None and size is not None and not 0 <= task < size):
            has = "which has no panel: its task is None" if size is None else f"whose panel has {size} tasks"
            raise ValueError(f"the task sampler chose task {task!r} of the environment {env!r}, {has}")
        start = derive_seed(seed, "rollout", rollout, group)
        for sample in range(samples):
            assignments.append(Assignment(task=task, seed=start, group=group, sample=sample, env=env))
    return assignments


def group_results(tasks: Sequence[tuple[str, int | None]], episodes: Sequence[EpisodeSummary]) -> list[GroupResult]:
    """Sum up a rollout's episodes by group, masked ones left out.

    Args:
        tasks: Environment and task of each group.
        episodes: Of all processes, in any order.
    """
    results = []
    for group, (env, task) in enumerate(tasks):
        # Sorted, so that the sum does not depend on which process ran what.
        rewards = sorted(e.reward for e in episodes if e.group == group and not e.masked)
        wins = sum(e.success for e in episodes if e.group == group and not e.masked)
        if rewards:
            count = len(rewards)
            results.append(GroupResult(env, task, math.fsum(rewards) / count, wins / count, count))
    return results
