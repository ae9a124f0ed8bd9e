"""The exam: the same held-out episodes before and after training, and the table that shows what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.table import Table

from agent_r1_trainer.bench.report import Estimate, paired_difference, share_estimate

if TYPE_CHECKING:
    from agent_r1_trainer.environments.mixture import MixtureEntry
    from agent_r1_trainer.train.settings import ExamSettings, TrainSettings
    from agent_r1_trainer.trainer.steppo_trainer import StepPOTrainer
    from agent_r1_trainer.trajectory import Trajectory

__all__ = ["Exam", "ExamResult", "exam_table", "gain", "temperature_name"]


@dataclass(frozen=True, slots=True)
class ExamResult:
    """What one policy did at one temperature.

    Attributes:
        policy: `untrained` or `trained`.
        temperature: 0 is greedy.
        tasks: Ids of the tasks.
        successes: Whether each was solved, 1 or 0.
        success: Share of solved tasks with its 95 % interval.
        turns: Mean number of turns.
        invalid_rate: Share of invalid actions.
        env: Name of the environment in a mixture, whose environments are examined one by one.
    """

    policy: str
    temperature: float
    tasks: tuple[str, ...]
    successes: tuple[int, ...]
    success: Estimate
    turns: float
    invalid_rate: float
    env: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data, for the report."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ExamResult:
        """Restore what `to_json` gave."""
        lists = {"tasks": tuple(data["tasks"]), "successes": tuple(data["successes"])}
        return cls(**{**data, **lists, "success": Estimate(**data["success"])})


class Exam:
    """Held-out tasks in the environments of the exam, with the flow, the prompts and the sampling of training.

    Those of a mixture are played with their arguments for evaluation, those of the exam on top.

    Args:
        trainer: Its policy is examined, as it is at the time.
        settings: Of the run.
        exam: Of the exam.
    """

    def __init__(self, trainer: StepPOTrainer, settings: TrainSettings, exam: ExamSettings) -> None:
        from agent_r1_trainer.environments.mixture import MixtureEntry
        from agent_r1_trainer.flows.failures import FailureWatch
        from agent_r1_trainer.trainer.evaluation import Evaluator
        from agent_r1_trainer.trainer.setup import make_loop

        entries = {"": MixtureEntry(exam.env or settings.env, kwargs=exam.env_kwargs)}
        if settings.envs and not exam.env:
            entries = {
                name: replace(entry, kwargs={**_held_out(entry), **exam.env_kwargs})
                for name, entry in trainer.entries.items()
            }
        flow = make_loop(trainer.args, trainer.model, trainer.processing_class, entries)
        flow.check(trainer.sampling)
        self._trainer = trainer
        self._flow = flow
        watch = FailureWatch(trainer.args.max_masked_ratio, speaks=trainer.is_world_process_zero())
        self._evaluator = Evaluator(flow, trainer.accelerator, episodes=exam.episodes, seed=exam.seed, watch=watch)

    @property
    def episodes(self) -> int:
        """How many tasks there are, of all environments; a panel may hold fewer than were asked for."""
        return len(self._evaluator.assignments)

    def close(self) -> None:
        """Close the environments; another exam builds new ones."""
        self._flow.close()

    def take(self, policy: str, temperature: float) -> tuple[list[ExamResult], list[Trajectory]]:
        """Run all episodes.

        Args:
            policy: What the result is called.
            temperature: 0 takes the most likely tokens.

        Returns:
            The results over all processes, one an environment, and the trajectories of this one.
        """
        from agent_r1_trainer.learning.distributed import gather_items

        trainer = self._trainer
        with trainer.generator() as generator:
            _, trajectories = self._evaluator.run(generator, replace(trainer.sampling, temperature=temperature))
        rows = gather_items(trainer.accelerator, [(t.env, _row(t)) for t in trajectories])
        results = [
            summarize_exam(policy, temperature, [row for name, row in rows if name == env], env)
            for env in dict.fromkeys(name for name, _ in rows)
        ]
        return results, trajectories


def summarize_exam(
    policy: str, temperature: float, rows: Sequence[tuple[str, int, int, int]], env: str = ""
) -> ExamResult:
    """Make the result of one environment's rows of (task id, success, turns, invalid actions)."""
    tasks, successes, turns, invalid = zip(*rows, strict=True)
    success = share_estimate(successes)
    total = sum(turns)
    return ExamResult(
        policy, temperature, tasks, successes, success, total / len(rows), sum(invalid) / max(total, 1), env
    )


def gain(before: ExamResult, after: ExamResult) -> Estimate:
    """Difference of success, in points, with the interval of a paired difference.

    Raises:
        ValueError: The tasks differ.
    """
    if before.tasks != after.tasks:
        raise ValueError("a gain needs the same tasks before and after")
    difference = paired_difference(before.successes, after.successes)
    return Estimate(100 * difference.value, 100 * difference.low, 100 * difference.high)


def _held_out(entry: MixtureEntry) -> Mapping[str, Any]:
    """Arguments of an environment for evaluation; an empty mapping asks for its defaults, not for those of training."""
    return entry.kwargs if entry.eval_kwargs is None else entry.eval_kwargs


def _row(trajectory: Trajectory) -> tuple[str, int, int, int]:
    steps = trajectory.steps
    return trajectory.task_id, int(trajectory.success), len(steps), sum(step.invalid for step in steps)


def exam_table(results: Sequence[ExamResult], title: str, before: str = "untrained") -> Table:
    """Make the table, one row a temperature; in brackets 95 % intervals over the tasks, paired for the gain.

    It fits into 80 columns.

    Args:
        results: Of the untrained policy and, where there are any yet, of the trained one.
        title: Says what was measured.
        before: What the policy was before training.
    """
    table = Table(title=title, title_justify="left")
    for heading in ("held-out success", before, "trained", "gain, points"):
        table.add_column(heading, justify="left" if heading == "held-out success" else "right", no_wrap=True)
    found = {(result.policy, result.temperature): result for result in results}
    for temperature in sorted({result.temperature for result in results}, key=_order):
        first, after = found.get(("untrained", temperature)), found.get(("trained", temperature))
        table.add_row(
            temperature_name(temperature),
            "" if first is None else _show(first.success, ".3f", ".2f"),
            "" if after is None else _show(after.success, ".3f", ".2f"),
            "" if first is None or after is None else _show(gain(first, after), "+.0f", ".0f"),
        )
    return table


def temperature_name(temperature: float) -> str:
    """What a temperature is called."""
    return "greedy" if temperature == 0 else f"sampled, T = {temperature:g}"


def _order(temperature: float) -> tuple[bool, float]:
    """Sampled as in training first, then greedy, then the temperatures between."""
    return (0.0 < temperature < 1.0, -temperature)


def _show(estimate: Estimate, form: str, bounds: str) -> str:
    return f"{estimate.value:{form}} [{estimate.low:{bounds}}, {estimate.high:{bounds}}]"
