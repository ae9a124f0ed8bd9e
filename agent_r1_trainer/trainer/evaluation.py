"""Evaluation on held-out tasks."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from accelerate import Accelerator

from agent_r1_trainer.curriculum.choice import choose_tasks
from agent_r1_trainer.flows import AgentFlowBase, Assignment
from agent_r1_trainer.flows.collect import collect
from agent_r1_trainer.flows.failures import FailureWatch
from agent_r1_trainer.generation import Generator, SamplingParams
from agent_r1_trainer.learning.distributed import gather_items
from agent_r1_trainer.metrics import EpisodeSummary, by_environment, episode_metrics, pass_metrics, summarize
from agent_r1_trainer.seeds import derive_seed
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["Evaluator", "evaluation_metrics", "forked_rng"]

_MACRO = ("success", "score", "reward")
_GREEDY = (*_MACRO, "turns/mean")


class Evaluator:
    """Runs the same held-out episodes at every call: same tasks, same seeds, so that only the policy differs.

    Args:
        flow: Runs the episodes; all its environments are evaluated on.
        accelerator: Divides them among the ranks.
        episodes: How many tasks of each panel, chosen by `choose_tasks`; None takes all (100 seeds without a panel).
        seed: Seed of the run.
        samples: Episodes of each task; greedy ones are run once.
        watch: Stops where too many episodes fail; None lets every one fail.
        vocabulary: Size of the policy's vocabulary; None does not limit ids.
    """

    def __init__(
        self,
        flow: AgentFlowBase,
        accelerator: Accelerator,
        *,
        episodes: int | None,
        seed: int,
        samples: int = 1,
        watch: FailureWatch | None = None,
        vocabulary: int | None = None,
    ) -> None:
        self.assignments = _assignments(flow, episodes, seed, samples)
        self._flow = flow
        self._accelerator = accelerator
        self._samples = samples
        self._watch = watch
        self._vocabulary = vocabulary

    @property
    def task_ids(self) -> dict[str, list[str]]:
        """Ids of the tasks, by the name of their environment, where the flow knows them."""
        found: dict[str, list[str]] = {}
        panels = self._flow.tasks
        for assignment in self.assignments:
            panel = panels.get(assignment.env)
            if panel is not None and isinstance(assignment.task, int) and assignment.sample == 0:
                found.setdefault(assignment.env, []).append(panel.ids[assignment.task])
        return found

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
        started = time.perf_counter()
        with forked_rng():
            trajectories = self._pass(self.assignments, generator, sampling, policy_version)
            metrics = evaluation_metrics(self._summaries(trajectories), self._samples)
            metrics["runtime"] = time.perf_counter() - started
            if greedy:
                once = [assignment for assignment in self.assignments if assignment.sample == 0]
                likely = self._pass(once, generator, replace(sampling, temperature=0.0), policy_version)
                metrics.update(evaluation_metrics(self._summaries(likely), 1, only=_GREEDY, prefix="greedy_"))
        return metrics, trajectories

    def _pass(
        self, assignments: Sequence[Assignment], generator: Generator, sampling: SamplingParams, policy_version: int
    ) -> list[Trajectory]:
        return collect(
            self._flow,
            self._accelerator,
            assignments,
            generator,
            sampling,
            policy_version=policy_version,
            vocabulary=self._vocabulary,
        )

    def _summaries(self, trajectories: Sequence[Trajectory]) -> list[EpisodeSummary]:
        summaries = gather_items(self._accelerator, [summarize(trajectory) for trajectory in trajectories])
        if self._watch is not None:
            self._watch.check(summaries, "the evaluation")
        return summaries


def _assignments(flow: AgentFlowBase, episodes: int | None, seed: int, samples: int) -> list[Assignment]:
    tasks: list[tuple[str, int, bool]] = []
    for env, size in flow.panels.items():
        if size is None:
            tasks += [(env, index, False) for index in range(episodes or 100)]
        else:
            panel = flow.tasks.get(env)
            ids = [str(index) for index in range(size)] if panel is None else panel.ids
            chosen = choose_tasks(ids, episodes or size, None if panel is None else panel.types)
            tasks += [(env, index, True) for index in chosen]
    return [
        Assignment(
            task=index if has_panel else None,
            seed=derive_seed(seed, "evaluation", index, *([env] if env else [])),
            group=group,
            sample=sample,
            env=env,
        )
        for group, (env, index, has_panel) in enumerate(tasks)
        for sample in range(samples)
    ]


def evaluation_metrics(
    episodes: Sequence[EpisodeSummary], samples: int = 1, *, only: Sequence[str] | None = None, prefix: str = ""
) -> dict[str, float]:
    """Metrics of an evaluation: overall, and in a mixture of each environment as `<name>_<metric>`.

    Overall success, score, reward and pass@k are means over the environments, each counting alike however many tasks it
    has; everything else is over all episodes.

    Args:
        episodes: Of all processes.
        samples: Episodes of each task.
        only: Names of the metrics to report; None reports all.
        prefix: Put before the name of each metric, after that of the environment.
    """
    parts = {
        name: {**episode_metrics(part), **pass_metrics(part, samples)}
        for name, part in by_environment(episodes).items()
    }
    overall = episode_metrics(episodes)
    for metric in (*_MACRO, *pass_metrics([], samples)):
        overall[metric] = math.fsum(part[metric] for part in parts.values()) / max(len(parts), 1)
    reported = {"": overall, **{f"{name}_": part for name, part in parts.items() if name}}
    return {
        f"{name}{prefix}{metric}": value
        for name, metrics in reported.items()
        for metric, value in metrics.items()
        if only is None or metric in only
    }


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
