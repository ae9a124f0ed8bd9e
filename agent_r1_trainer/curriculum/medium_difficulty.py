"""A curriculum from success rates: tasks that are neither solved nor hopeless come more often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agent_r1_trainer.curriculum.epochs import allocate
from agent_r1_trainer.curriculum.sampler import GroupResult

__all__ = ["MediumDifficulty"]


class MediumDifficulty:
    """Draws the tasks of a rollout by how much there is to learn from them (a `TaskSampler`).

    A group whose episodes all succeed or all fail teaches nothing where credit is relative to the group, and the
    variance of success, `p (1 - p)`, is largest at one half. So a task is drawn with a probability proportional to
    `floor + p (1 - p)`, where `p` is a running mean of its success rate. A task that was never tried counts as one
    half, so the first rollouts look around in the panel. The floor keeps solved and hopeless tasks in sight, since both
    can change. Within a rollout no task comes twice while the panel is large enough. The environments keep their
    shares.

    Example:
        `StepPOConfig(task_sampler="agent_r1_trainer.curriculum:MediumDifficulty", num_generations=8, ...)`

    Args:
        panels: Size of each environment's panel.
        groups: Tasks in a rollout.
        seed: Seed of the run.
        weights: Share of each environment.
        memory: Weight of the old mean when a group was seen, 0 keeps the latest result only.
        floor: What a task of success rate 0 or 1 is worth; the most that a task can be worth is this plus 1/4.

    Raises:
        ValueError: An environment has no panel, or a number is out of range.
    """

    def __init__(
        self,
        panels: Mapping[str, int | None],
        groups: int,
        seed: int,
        weights: Mapping[str, float],
        memory: float = 0.5,
        floor: float = 0.02,
    ) -> None:
        sizes = {name: size for name, size in panels.items() if size is not None}
        if len(sizes) < len(panels):
            raise ValueError(
                f"MediumDifficulty chooses among tasks, so every environment needs a panel: {dict(panels)}"
            )
        if not 0.0 <= memory < 1.0 or floor <= 0.0:
            raise ValueError(f"memory must be in [0, 1) and floor positive, got {memory} and {floor}")
        self._sizes = sizes
        self._groups, self._seed, self._weights = groups, seed, dict(weights)
        self._memory, self._floor = memory, floor
        self._success: dict[str, dict[int, float]] = {name: {} for name in sizes}

    def assignments(self, rollout: int) -> list[tuple[str, int | None]]:
        """Draw the tasks of a rollout."""
        envs = [env for env, _ in allocate(self._weights, rollout * self._groups, self._groups)]
        generator = np.random.default_rng([self._seed, rollout])
        drawn = {env: iter(self._draw(env, envs.count(env), generator)) for env in dict.fromkeys(envs)}
        return [(env, next(drawn[env])) for env in envs]

    def observe(self, rollout: int, results: Sequence[GroupResult]) -> None:
        """Move the means of the tasks that were tried."""
        for result in results:
            assert result.task is not None
            seen = self._success[result.env]
            old = seen.get(result.task, result.success)
            seen[result.task] = self._memory * old + (1.0 - self._memory) * result.success

    def state_dict(self) -> dict[str, Any]:
        """The means of the tasks that were tried."""
        return {"success": {env: sorted(seen.items()) for env, seen in self._success.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        for env, seen in state["success"].items():
            self._success[env] = {int(task): float(success) for task, success in seen}

    def _draw(self, env: str, count: int, generator: np.random.Generator) -> list[int]:
        size = self._sizes[env]
        success = np.full(size, 0.5)
        for task, mean in self._success[env].items():
            success[task] = mean
        worth = self._floor + success * (1.0 - success)
        drawn: list[int] = []
        while len(drawn) < count:
            part = min(count - len(drawn), size)
            drawn += generator.choice(size, part, replace=False, p=worth / worth.sum()).tolist()
        return drawn
