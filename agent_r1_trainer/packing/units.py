"""Merge units: the steps that one forward pass can serve together.

When the prompt of a step is the previous prompt, the previous response and something new, a causal model computes for
the longer sequence exactly what it computed for the shorter one. So a maximal chain of such steps is ONE sequence,
with a response span and a value position per step, and every token is computed once: at 20 turns that is about a
tenth of the work, as `packing_stats` counts it. Results go back to the steps by their numbers in a `Layout`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agent_r1_trainer.trajectory import Step, TokenIds, Trajectory

__all__ = ["Layout", "PackingStats", "Unit", "continues", "merge_units", "packing_stats"]


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
    """Say whether a step's prompt starts with the previous step's prompt and response, compared id by id.

    Of `TokenIds` that share memory only the response is compared.
    """
    prompt, before = step.prompt_ids, previous.prompt_ids
    start, end = len(before), len(before) + len(previous.response_ids)
    if len(prompt) < end or prompt[start:end] != previous.response_ids:
        return False
    return prompt.starts_with(before) if isinstance(prompt, TokenIds) else prompt[:start] == before


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


class Layout:
    """Numbers the steps, and the response tokens, of a list of trajectories in order.

    A trainer keeps what it knows about a collected batch in flat tensors, one entry a step (advantages, returns,
    values, weights) or one entry a response token (old, reference and sampler log-probabilities). A `MicroBatch`
    reads its part of them and writes its results back by these numbers. The order of the steps is that of
    `CreditBatch`.

    Args:
        trajectories: None of them masked.
        value_rows: Row of the value head of each environment by name; None if it has one row.

    Attributes:
        num_steps: N, number of steps of all trajectories.
        num_tokens: Number of response tokens of all steps.
        lengths: [N] int64, number of response tokens of each step.
        trajectory: [N] int64, position of each step's trajectory.
        value_rows: [N] int64, row of the value head that predicts each step's values.
    """

    def __init__(self, trajectories: Sequence[Trajectory], value_rows: Mapping[str, int] | None = None) -> None:
        self._first_step: list[int] = []
        self._first_token: list[int] = []
        lengths: list[int] = []
        owners: list[int] = []
        tokens = 0
        for index, trajectory in enumerate(trajectories):
            if trajectory.masked:
                raise ValueError(f"leave masked trajectories out: task {trajectory.task_id!r}")
            self._first_step.append(len(lengths))
            for step in trajectory.steps:
                self._first_token.append(tokens)
                lengths.append(len(step.response_ids))
                owners.append(index)
                tokens += len(step.response_ids)
        self.num_steps = len(lengths)
        self.num_tokens = tokens
        self.lengths = torch.tensor(lengths, dtype=torch.int64)
        self.trajectory = torch.tensor(owners, dtype=torch.int64)
        rows = [0 if value_rows is None else value_rows[trajectory.env] for trajectory in trajectories]
        self.value_rows = torch.tensor(rows, dtype=torch.int64)[self.trajectory]

    def step(self, trajectory: int, t: int) -> int:
        """Number of step ``t`` of a trajectory."""
        return self._first_step[trajectory] + t

    def first_token(self, step: int) -> int:
        """Number of the first response token of the step with this number."""
        return self._first_token[step]

    def sampler_logps(self, trajectories: Sequence[Trajectory]) -> Tensor:
        """Log-probabilities of the sampler, [num_tokens] float32, NaN where it gave none.

        Args:
            trajectories: The ones that the layout was built from.
        """
        missing = float("nan")
        values: list[float] = []
        for trajectory in trajectories:
            for step in trajectory.steps:
                given = step.logprobs
                if given is None or len(given) != len(step.response_ids):
                    values.extend([missing] * len(step.response_ids))
                else:
                    values.extend(missing if value is None else value for value in given)
        return torch.tensor(values, dtype=torch.float32)


@dataclass(frozen=True, slots=True)
class PackingStats:
    """Token counts of one pass over some trajectories.

    Attributes:
        distinct: Positions that have to be computed: those of the tree of each trajectory's sequences (shared prefixes
            count once, within a trajectory).
        computed: Tokens of the units.
        padded: Tokens of the micro-batches, padding included.
        unmerged: Tokens of the steps, each with its whole prompt.
    """

    distinct: int
    computed: int
    padded: int
    unmerged: int


def packing_stats(trajectories: Sequence[Trajectory], groups: Sequence[Sequence[Unit]]) -> PackingStats:
    """Count the tokens of a division into micro-batches.

    Args:
        trajectories: Unmasked trajectories.
        groups: Their units, from `merge_units`, divided by `micro_batches`.
    """
    return PackingStats(
        distinct=sum(_distinct(trajectory.steps) for trajectory in trajectories),
        computed=sum(unit.length for group in groups for unit in group),
        padded=sum(len(group) * max((unit.length for unit in group), default=0) for group in groups),
        unmerged=sum(
            len(step.prompt_ids) + len(step.response_ids) for trajectory in trajectories for step in trajectory.steps
        ),
    )


def _distinct(steps: Sequence[Step]) -> int:
    """Nodes of the prefix tree of the steps' sequences: sorted neighbours share the longest prefixes."""
    # A step that the next one continues adds no node.
    ends = [step for t, step in enumerate(steps) if t + 1 == len(steps) or not continues(step, steps[t + 1])]
    total, previous = 0, TokenIds()
    for ids in sorted(step.prompt_ids + step.response_ids for step in ends):
        sequence = TokenIds(ids)
        total += len(sequence) - sequence.common_prefix(previous)
        previous = sequence
    return total
