"""Merge units: the steps that one forward pass can serve together.

When the prompt of a step is the previous prompt, the previous response and something new, a causal model computes for
the longer sequence exactly what it computed for the shorter one. So a maximal chain of such steps is ONE sequence,
with a response span and a value position per step, and every token is computed once: at 20 turns that is about a
tenth of the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agent_r1_trainer.trajectory import Step, Trajectory

__all__ = ["Unit", "continues", "merge_units"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A maximal chain of steps of one trajectory: the unit of shuffling, mini-batching and packing.

    Its token ids are the prompt and response of its LAST step, of which those of the earlier steps are prefixes.

    Attributes:
        trajectory: Position of the trajectory in the list that was given to `merge_units`.
        steps: Positions of the steps in that trajectory, consecutive.
        length: Number of token ids, prompt and responses together.
    """

    trajectory: int
    steps: range
    length: int

    @property
    def first(self) -> int:
        """Position of the first step in its trajectory."""
        return self.steps[0]

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return len(self.steps)


def continues(previous: Step, step: Step) -> bool:
    """Say whether a step's prompt starts with the previous step's prompt and response, compared id by id."""
    start, end = len(previous.prompt_ids), len(previous.prompt_ids) + len(previous.response_ids)
    return (
        len(step.prompt_ids) >= end
        and step.prompt_ids[start:end] == previous.response_ids
        and step.prompt_ids[:start] == previous.prompt_ids
    )


def merge_units(trajectories: Sequence[Trajectory], merge: bool = True) -> list[Unit]:
    """Cut every trajectory into its merge units.

    The ids decide, whatever ``Step.extends`` says.

    Args:
        trajectories: Unmasked trajectories.
        merge: False makes every step a unit of its own (the fall-back where `merge_obstacle` gives a reason).

    Returns:
        The units, in the order of trajectories and steps; together they hold every step once.

    Raises:
        ValueError: A masked trajectory, or a step with an empty prompt (its value would have no position).
    """
    units = []
    for index, trajectory in enumerate(trajectories):
        if trajectory.masked:
            raise ValueError(f"leave masked trajectories out: task {trajectory.task_id!r}")
        steps = trajectory.steps
        first = 0
        for t, step in enumerate(steps):
            if not step.prompt_ids:
                raise ValueError(f"step {t} of task {trajectory.task_id!r} has an empty prompt")
            last = t + 1 == len(steps)
            if last or not merge or not continues(step, steps[t + 1]):
                length = len(step.prompt_ids) + len(step.response_ids)
                units.append(Unit(trajectory=index, steps=range(first, t + 1), length=length))
                first = t + 1
    return units
