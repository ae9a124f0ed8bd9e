"""From trajectories to what the optimizer steps of a rollout need.

Everything that depends on the whole batch (denominators, whitening, the plan of mini-batches) is computed by every rank
from the same gathered numbers; token ids and tensors of tokens never leave the rank that collected them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from agent_r1_trainer.credit import Level
from agent_r1_trainer.learning.value_scale import Units
from agent_r1_trainer.losses import Aggregation, step_weights
from agent_r1_trainer.packing import (
    Layout,
    MicroBatch,
    Unit,
    collate,
    filler,
    micro_batches,
    plan_minibatches,
)
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["BatchFacts", "Experience", "Update", "add_fillers", "plan_updates"]


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What every rank knows about one unmasked trajectory.

    Attributes:
        rewards: Reward of each step, as the environment gave it.
        lengths: Response tokens of each step.
        units: Number of steps of each of its merge units, in order.
        group: Group of the trajectory.
        bootstrapped: Whether its final value is the critic's.
        env: Name of its environment in a mixture.
        silenced: For each step whether it has no policy term although it has a response.
        overlong: Whether none of its steps has one, since its context ran out.
        anchors: What tells the state of each step; empty if nobody asks for it.
    """

    rewards: list[float]
    lengths: list[int]
    units: list[int]
    group: int
    bootstrapped: bool
    env: str = ""
    silenced: list[bool] | None = None
    anchors: list[str] | None = None
    overlong: bool = False

    @property
    def policy_lengths(self) -> list[int]:
        """Tokens of each step that have a policy term."""
        if self.overlong:
            return [0] * len(self.lengths)
        if self.silenced is None:
            return self.lengths
        return [0 if silent else length for length, silent in zip(self.lengths, self.silenced, strict=True)]


@dataclass(frozen=True, eq=False, slots=True)
class Update:
    """One optimizer step.

    Attributes:
        batches: This rank's micro-batches, at least one and as many as on every other rank (fillers at the end).
        policy_weights: [N] weight of each local step in the policy loss, 0 outside the mini-batch.
        value_weights: [N] weight of EACH value of a local step in the value loss: of its only one, or, with a critic
            over tokens, of one a response token.
        num_steps: Steps of the mini-batch on all ranks together; 0 if there were fewer units than mini-batches.
        num_policy_steps: Those of them that have a policy term: a reply that is not left out, and a weight above 0.
        num_value_steps: Those of them whose values have a weight above 0.
    """

    batches: list[MicroBatch]
    policy_weights: Tensor
    value_weights: Tensor
    num_steps: int
    num_policy_steps: int
    num_value_steps: int


@dataclass(eq=False, slots=True)
class Experience:
    """A collected batch, as one rank holds it. N and M count its own steps and response tokens.

    Attributes:
        rollout: Number of the rollout.
        trajectories: This rank's trajectories that take part: not masked, not filtered out.
        layout: Numbers of their steps and tokens.
        updates: The optimizer steps, epoch after epoch.
        level: Whether credit and values are one a step or one a response token.
        advantages: [N], or [M] at level "token".
        returns: [N] or [M] targets of the critic, in its units; zeros without one.
        old_values: [N] or [M] its predictions at collection, in the same units; zeros without a critic.
        old_logps: [M] log-probabilities under the policy that collected the batch; None if there is only one update, in
            which they equal the current ones.
        ref_logps: [M] under the reference, or None.
        sampler_logps: [M] as the sampler gave them, NaN where it gave none.
        units: What the critic's numbers mean, for each environment of the batch; empty without one.
        failure: Why no episode of any rank could be used; empty if one could.
        policy_stopped: The target KL was exceeded: the policy stands still for the rest of the rollout.
    """

    rollout: int
    trajectories: list[Trajectory]
    layout: Layout
    updates: list[Update]
    level: Level
    advantages: Tensor
    returns: Tensor
    old_values: Tensor
    old_logps: Tensor | None
    ref_logps: Tensor | None
    sampler_logps: Tensor
    units: dict[str, Units] = field(default_factory=dict)
    failure: str = ""
    policy_stopped: bool = False

    @classmethod
    def unscored(
        cls,
        rollout: int,
        trajectories: list[Trajectory],
        layout: Layout,
        updates: list[Update],
        *,
        level: Level,
        with_reference: bool,
    ) -> Experience:
        """The experience before anything was computed: zeros of the right shapes."""
        values = layout.num_tokens if level == "token" else layout.num_steps
        return cls(
            rollout=rollout,
            trajectories=trajectories,
            layout=layout,
            updates=updates,
            level=level,
            advantages=torch.zeros(values),
            returns=torch.zeros(values),
            old_values=torch.zeros(values),
            old_logps=torch.zeros(layout.num_tokens),
            ref_logps=torch.zeros(layout.num_tokens) if with_reference else None,
            sampler_logps=layout.sampler_logps(trajectories),
        )

    def value_of_step(self, step: int, env: str) -> float:
        """What the critic thought of one step, in units of the reward."""
        units = self.units.get(env, Units())
        return units.mean + units.scale * self.of_step(self.old_values, step) if self.units else 0.0

    def of_step(self, numbers: Tensor, step: int) -> float:
        """One step's entry of `advantages`, `returns` or `old_values`; at level "token" the mean over its tokens."""
        if self.level == "step":
            return float(numbers[step])
        first, count = self.layout.first_token(step), int(self.layout.lengths[step])
        return float(numbers[first : first + count].mean()) if count else 0.0


def plan_updates(
    trajectories: Sequence[Trajectory],
    units: Sequence[Unit],
    layout: Layout,
    facts: Sequence[BatchFacts],
    *,
    first: int,
    epochs: int,
    minibatches: int,
    seed: Sequence[int],
    aggregation: Aggregation,
    token_budget: int,
    pad_id: int,
    level: Level = "step",
    loss_weights: Mapping[str, float] | None = None,
    loss_divisors: Mapping[str, float] | None = None,
) -> list[Update]:
    """Divide a batch into its optimizer steps, without fillers yet.

    Args:
        trajectories: This rank's trajectories.
        units: Their merge units.
        layout: Their layout.
        facts: The trajectories of all ranks, rank after rank.
        first: Position in `facts` of this rank's first trajectory.
        epochs: Passes over the batch.
        minibatches: Optimizer steps in each.
        seed: With the epoch, the seed of the plan.
        aggregation: How steps are weighted in the policy loss.
        token_budget: Largest size of a micro-batch.
        pad_id: Padding.
        level: Whether the value loss averages over steps or over response tokens.
        loss_weights: Factor on the weights of an environment's steps, by its name; 1 if absent. The denominators stay
            those of the factor 1, so that a factor of 2 doubles an environment's gradient and no other's.
        loss_divisors: For `token_sum`: what the sum over a trajectory's tokens is divided by, by its environment's
            name. It is divided by the number of trajectories too, those of the batch shared out evenly among the
            mini-batches: the same constant for every token of a rollout, however long the trajectories are that a
            mini-batch got, and whether or not any of their steps is left out.

    Returns:
        `epochs * minibatches` updates.
    """
    unit_steps = [steps for fact in facts for steps in fact.units]
    offset = sum(len(fact.units) for fact in facts[:first])
    starts = np.concatenate([[0], np.cumsum(unit_steps, dtype=np.int64)])
    learned = [fact.policy_lengths for fact in facts]
    lengths = np.array([length for each in learned for length in each], dtype=np.int64)
    turns = [len(each) for each in learned]
    spans = np.repeat(np.array([sum(map(bool, each)) for each in learned], dtype=np.int64), turns)
    tokens = np.repeat(np.array([sum(each) for each in learned], dtype=np.int64), turns)
    divisors = None
    if aggregation == "token_sum":
        share = len(facts) / minibatches
        divisors = np.array([share * (loss_divisors or {})[fact.env] for fact in facts for _ in fact.lengths])
    # How many values of the critic a step has.
    valued = np.array([n if level == "token" else 1 for fact in facts for n in fact.lengths], dtype=np.int64)
    factors = np.array([(loss_weights or {}).get(fact.env, 1.0) for fact in facts for _ in fact.lengths])
    local = sum(len(fact.lengths) for fact in facts[:first])
    window = slice(local, local + layout.num_steps)
    updates = []
    for epoch in range(epochs):
        for plan in plan_minibatches(unit_steps, minibatches, [*seed, epoch]):
            steps = np.concatenate([np.arange(starts[unit], starts[unit + 1]) for unit in plan] or [starts[:0]])
            weights = np.zeros(len(lengths))
            of_steps = None if divisors is None else divisors[steps]
            weights[steps] = step_weights(aggregation, lengths[steps], spans[steps], tokens[steps], of_steps)
            weights[steps] *= factors[steps]
            value_weights = np.zeros(len(lengths))
            count = max(int(valued[steps].sum()), 1)
            value_weights[steps] = np.where(valued[steps] > 0, factors[steps] / count, 0.0)
            mine = [units[unit - offset] for unit in plan if offset <= unit < offset + len(units)]
            groups = micro_batches(mine, token_budget)
            updates.append(
                Update(
                    batches=[collate(group, trajectories, layout, pad_id) for group in groups],
                    policy_weights=torch.from_numpy(weights[window].astype(np.float32)),
                    value_weights=torch.from_numpy(value_weights[window].astype(np.float32)),
                    num_steps=len(steps),
                    num_policy_steps=int(np.count_nonzero(weights)),
                    num_value_steps=int(np.count_nonzero(value_weights)),
                )
            )
    return updates


def add_fillers(updates: Sequence[Update], counts: Sequence[int], pad_id: int) -> None:
    """Give update i at least one and exactly `max(counts[i], 1)` micro-batches, so that collectives stay aligned."""
    for update, count in zip(updates, counts, strict=True):
        update.batches.extend(filler(pad_id) for _ in range(max(count, 1) - len(update.batches)))
