"""Where each step and each response token lies in flat vectors over a list of trajectories."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from agent_r1_trainer.trajectory import Trajectory

__all__ = ["Layout"]


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
