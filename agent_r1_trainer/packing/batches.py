"""From merge units to tensors: which units make up a mini-batch, which share a forward pass, and what that reads."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agent_r1_trainer.credit import Level
from agent_r1_trainer.packing.units import Layout, Unit
from agent_r1_trainer.trajectory import TokenIds, Trajectory

__all__ = ["MicroBatch", "collate", "filler", "micro_batches", "plan_minibatches"]


def plan_minibatches(unit_steps: Sequence[int], num_minibatches: int, seed: int | Sequence[int]) -> list[list[int]]:
    """Divide the units of the GLOBAL batch into mini-batches of about equal numbers of steps.

    A pure function of its arguments: give every rank the same list (in an order that does not depend on which rank
    holds which unit: by group, sample and first step) and the plan is the same on every rank and for every number of
    ranks. Each rank then trains on those units of a mini-batch that it holds.

    The units are shuffled, then dealt out, the largest first (in shuffled order among equals), each to the mini-batch
    that has the fewest steps so far.

    Args:
        unit_steps: Number of steps of each unit.
        num_minibatches: How many mini-batches; it is also the number of optimizer steps of one epoch, so the result
            always has this many entries. Some are empty if there are fewer units than mini-batches.
        seed: A seed, or several numbers that make one (run seed, batch number, epoch); never negative.

    Returns:
        For each mini-batch the indices of its units, ascending. Each unit occurs once. Step counts of two mini-batches
        differ by no more than the largest unit.

    Raises:
        ValueError: ``num_minibatches`` is below 1.
    """
    if num_minibatches < 1:
        raise ValueError(f"num_minibatches must be at least 1, got {num_minibatches}")
    sizes = np.asarray(unit_steps, dtype=np.int64)
    shuffled = np.random.default_rng(seed).permutation(sizes.size)
    largest_first = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    plan: list[list[int]] = [[] for _ in range(num_minibatches)]
    load = [0] * num_minibatches
    for unit in largest_first.tolist():
        lightest = min(range(num_minibatches), key=load.__getitem__)
        plan[lightest].append(unit)
        load[lightest] += int(sizes[unit])
    return [sorted(units) for units in plan]


def micro_batches(
    units: Sequence[Unit], token_budget: int, *, max_rows: int | None = None, max_padding: float = 0.25
) -> list[list[Unit]]:
    """Group units of similar length so that no group costs more than a budget of tokens, padding included.

    The cost of a group is its number of rows times its longest unit. A unit that is longer than the budget gets a group
    of its own (it has to be computed somehow).

    Args:
        units: Any units.
        token_budget: Largest cost of a group.
        max_rows: Largest number of rows of a group, None for no limit.
        max_padding: Largest share of a row that may be padding: a unit much shorter than the longest of a group starts
            the next one, since one more pass over few tokens is cheaper than a pass over padding. 1 for no limit.

    Returns:
        The groups, longest units first, so that running out of memory shows at once; ties keep their order.

    Raises:
        ValueError: A budget or a number of rows below 1, or a share of padding outside 0 to 1.
    """
    if token_budget < 1 or (max_rows is not None and max_rows < 1):
        raise ValueError(f"token_budget and max_rows must be at least 1, got {token_budget} and {max_rows}")
    if not 0.0 <= max_padding <= 1.0:
        raise ValueError(f"max_padding must be between 0 and 1, got {max_padding}")
    groups: list[list[Unit]] = []
    for unit in sorted(units, key=lambda unit: -unit.length):
        group = groups[-1] if groups else []
        rows = len(group) + 1
        fits = (
            bool(group)
            and group[0].length * rows <= token_budget
            and (max_rows is None or rows <= max_rows)
            and unit.length >= (1.0 - max_padding) * group[0].length
        )
        if fits:
            group.append(unit)
        else:
            groups.append([unit])
    return groups


@dataclass(frozen=True, eq=False, slots=True)
class MicroBatch:
    """A right-padded batch of B rows (one merge unit each), with M response tokens and S steps in all.

    The logits that predict a response token are those of the position before it: with hidden states ``h`` [B, L, D],
    ``lm_head(h[token_row, token_col - 1])`` gives [M, V] without computing a logit for any other token, and
    ``value_head(h[value_row, value_col])`` gives the values [S]. Plain causal attention serves several spans in a
    row: no special mask and no position ids are needed.

    Attributes:
        input_ids: [B, L] int64, padded on the right.
        attention_mask: [B, L] int64, 1 on real tokens.
        token_row: [M] int64, row of each response token.
        token_col: [M] int64, column of each response token; at least 1.
        token_step: [M] int64, ascending, the step (0..S-1, numbered within the micro-batch) of each token.
        value_row: [S] int64, row of each step's value position.
        value_col: [S] int64, its column: the last prompt token of the step.
        value_head: [S] int64, row of the value head that predicts the step's values.
        token_index: [M] int64, number of each token in the `Layout`.
        step_index: [S] int64, number of each step in the `Layout`.
        real: False for a `filler`, which has no place in the layout.
    """

    input_ids: Tensor
    attention_mask: Tensor
    token_row: Tensor
    token_col: Tensor
    token_step: Tensor
    value_row: Tensor
    value_col: Tensor
    value_head: Tensor
    token_index: Tensor
    step_index: Tensor
    real: bool = True

    @property
    def num_steps(self) -> int:
        """S, the number of steps."""
        return self.step_index.numel()

    @property
    def token_ids(self) -> Tensor:
        """[M] the sampled ids."""
        return self.input_ids[self.token_row, self.token_col]

    @property
    def response_mask(self) -> Tensor:
        """[B, L] bool, True on response tokens."""
        mask = torch.zeros_like(self.input_ids, dtype=torch.bool)
        mask[self.token_row, self.token_col] = True
        return mask

    @property
    def labels(self) -> Tensor:
        """[B, L] int64, the ids of response tokens and -100 elsewhere, for a model that shifts labels itself."""
        return self.input_ids.masked_fill(~self.response_mask, -100)

    def to(self, device: torch.device | str) -> "MicroBatch":
        """Return the batch with its tensors on a device."""
        tensors: dict[str, Any] = {
            field.name: value.to(device)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return replace(self, **tensors)

    def read_steps(self, flat: Tensor) -> Tensor:
        """Read [S] out of a flat [N] vector over all steps, on the batch's device; zeros for a filler."""
        return self._read(flat, self.step_index)

    def read_tokens(self, flat: Tensor) -> Tensor:
        """Read [M] out of a flat vector over all response tokens, on the batch's device; zeros for a filler."""
        return self._read(flat, self.token_index)

    def write_steps(self, flat: Tensor, values: Tensor) -> None:
        """Write [S] into a flat [N] vector over all steps, in place; a filler writes nothing."""
        self._write(flat, self.step_index, values)

    def write_tokens(self, flat: Tensor, values: Tensor) -> None:
        """Write [M] into a flat vector over all response tokens, in place; a filler writes nothing."""
        self._write(flat, self.token_index, values)

    def value_positions(self, level: Level) -> tuple[Tensor, Tensor, Tensor]:
        """Rows and columns where the critic is read, and its head's rows: [S] at level "step", [M] at level "token".

        A token's value is that of the position that predicts it, from the hidden state that its logits come from; that
        of a step's first token is the value of the step.
        """
        if level == "token":
            return self.token_row, self.token_col - 1, self.value_head[self.token_step]
        return self.value_row, self.value_col, self.value_head

    def read(self, flat: Tensor, level: Level) -> Tensor:
        """`read_tokens` or `read_steps`."""
        return self._read(flat, self.token_index if level == "token" else self.step_index)

    def write(self, flat: Tensor, values: Tensor, level: Level) -> None:
        """`write_tokens` or `write_steps`."""
        self._write(flat, self.token_index if level == "token" else self.step_index, values)

    def _read(self, flat: Tensor, index: Tensor) -> Tensor:
        if not self.real:
            return torch.zeros(index.numel(), dtype=flat.dtype, device=index.device)
        return flat[index.to(flat.device)].to(index.device)

    def _write(self, flat: Tensor, index: Tensor, values: Tensor) -> None:
        if self.real:
            flat[index.to(flat.device)] = values.detach().to(flat.device, flat.dtype)


def collate(units: Sequence[Unit], trajectories: Sequence[Trajectory], layout: Layout, pad_id: int) -> MicroBatch:
    """Turn merge units into a right-padded batch.

    Args:
        units: One row each; at least one.
        trajectories: The list that the units and the layout were made from.
        layout: Numbers of the steps and tokens.
        pad_id: Any id of the vocabulary; masked out.

    Raises:
        ValueError: No units.
    """
    if not units:
        raise ValueError("a micro-batch needs at least one unit; where a rank has none, use a filler")
    width = max(unit.length for unit in units)
    input_ids = torch.full((len(units), width), pad_id, dtype=torch.int64)
    attention_mask = torch.zeros((len(units), width), dtype=torch.int64)
    token_row: list[int] = []
    token_col: list[int] = []
    token_step: list[int] = []
    token_index: list[int] = []
    value_row: list[int] = []
    value_col: list[int] = []
    step_index: list[int] = []
    for row, unit in enumerate(units):
        steps = trajectories[unit.trajectory].steps
        last = steps[unit.steps[-1]]
        ids = np.asarray(TokenIds(last.prompt_ids).extended(last.response_ids))
        input_ids[row, : unit.length] = torch.from_numpy(ids)
        attention_mask[row, : unit.length] = 1
        for t in unit.steps:
            number = layout.step(unit.trajectory, t)
            start, count = len(steps[t].prompt_ids), len(steps[t].response_ids)
            first = layout.first_token(number)
            token_row.extend([row] * count)
            token_col.extend(range(start, start + count))
            token_step.extend([len(step_index)] * count)
            token_index.extend(range(first, first + count))
            value_row.append(row)
            value_col.append(start - 1)
            step_index.append(number)
    numbers = _int64(step_index)
    return MicroBatch(
        input_ids=input_ids,
        attention_mask=attention_mask,
        token_row=_int64(token_row),
        token_col=_int64(token_col),
        token_step=_int64(token_step),
        value_row=_int64(value_row),
        value_col=_int64(value_col),
        value_head=layout.value_rows[numbers],
        token_index=_int64(token_index),
        step_index=numbers,
    )


def filler(pad_id: int) -> MicroBatch:
    """Return a batch of one two-token row with one step of one token, which reads zeros and writes nothing.

    A rank that runs out of micro-batches runs fillers until every rank is done: all its step weights read as 0, so
    its loss is 0, but the loss depends on every parameter that a real one depends on, and the ranks' collectives stay
    aligned.
    """
    return MicroBatch(
        input_ids=torch.full((1, 2), pad_id, dtype=torch.int64),
        attention_mask=torch.ones((1, 2), dtype=torch.int64),
        token_row=_int64([0]),
        token_col=_int64([1]),
        token_step=_int64([0]),
        value_row=_int64([0]),
        value_col=_int64([0]),
        value_head=_int64([0]),
        token_index=_int64([0]),
        step_index=_int64([0]),
        real=False,
    )


def _int64(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)
