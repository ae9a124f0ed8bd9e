"""Evaluation on held-out tasks."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from accelerate import Accelerator

from agent_r1_trainer.distributed import gather_items, own_share
from agent_r1_trainer.flows import AgentFlowBase, Assignment
from agent_r1_trainer.generation import Generator, SamplingParams
from agent_r1_trainer.metrics import episode_metrics, summarize
from agent_r1_trainer.seeds import derive_seed
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["Evaluator", "forked_rng"]


class Evaluator:
    """Runs the same held-out episodes at every call: same tasks, same seeds, so that only the policy differs.

    Args:
        flow: Runs the episodes.
        accelerator: Divides them among the ranks.
        num_tasks: Size of the panel, None without one.
        episodes: How many of its tasks, from the first on; None takes all (100 seeds without a panel).
        seed: Seed of the run.
    """

    def __init__(
        self, flow: AgentFlowBase, accelerator: Accelerator, *, num_tasks: int | None, episodes: int | None, seed: int
    ) -> None:
        count = episodes or num_tasks or 100
        if num_tasks is not None:
            count = min(count, num_tasks)
        self.assignments = [
            Assignment(
                task=None if num_tasks is None else index, seed=derive_seed(seed, "evaluation", index), group=index
            )
            for index in range(count)
        ]
        self._flow = flow
        self._accelerator = accelerator

    def run(
        self, generator: Generator, sampling: SamplingParams, *, greedy: bool = False, policy_version: int = 0
    ) -> tuple[dict[str, float], list[Trajectory]]:
        """Evaluate.

        Args:
            generator: Of the policy.
            sampling: How replies are sampled.
            greedy: Evaluate with the most likely replies as well, as metrics `greedy_...`.
            policy_version: Recorded on every step.

        Returns:
            Metrics without a prefix, equal on all ranks, and this rank's sampled trajectories.
        """
        with forked_rng():
            metrics, trajectories = self._pass(generator, sampling, policy_version)
            if greedy:
                most_likely, _ = self._pass(generator, replace(sampling, temperature=0.0), policy_version)
                metrics.update(
                    {f"greedy_{name}": most_likely[name] for name in ("success", "score", "reward", "turns/mean")}
                )
        return metrics, trajectories

    def _pass(
        self, generator: Generator, sampling: SamplingParams, policy_version: int
    ) -> tuple[dict[str, float], list[Trajectory]]:
        started = time.perf_counter()
        mine = own_share(self._accelerator, self.assignments)
        trajectories = self._flow.run(mine, generator, sampling, policy_version=policy_version)
        metrics = episode_metrics(gather_items(self._accelerator, [summarize(t) for t in trajectories]))
        metrics["runtime"] = time.perf_counter() - started
        return metrics, trajectories


@contextmanager
def forked_rng() -> Iterator[None]:
    """Leave the global generators of Python, NumPy and PyTorch as they were, whatever the block draws."""
    python, numpy = random.getstate(), np.random.get_state()
    # By default it would go through all GPUs of the machine, and so open a context on each of them in every process.
    with torch.random.fork_rng([torch.cuda.current_device()] if torch.cuda.is_available() else []):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
