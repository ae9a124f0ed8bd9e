"""Whether the sampler and the training pass gave the same probabilities to what was sampled.

A policy gradient needs the probability of what was sampled. Where the sampler reads a model otherwise than the training
pass does, or samples from another distribution, a run goes on and learns something else. So the first rollout of every
process is compared.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agent_r1_trainer.trajectory import Trajectory

__all__ = [
    "LIMIT",
    "Differences",
    "computes_exactly",
    "mean_excess",
    "measure_differences",
    "refuse_disagreement",
    "warn_of_difference",
]

_LOGGER = logging.getLogger(__name__)

LIMIT = 0.05
"""Nats that a token may differ by in float32."""
_LIMIT_MEAN, _LIMIT_TAIL = 0.02, 0.3
"""Nats in 16 bits, where one token may differ by chance: of the mean, and of the 99th percentile."""
_FOREIGN = 10.0
"""Times as much may another engine differ in the mean before it is no rounding any more: its kernels are others."""


@dataclass(frozen=True, slots=True)
class Differences:
    """How far the sampler's log-probabilities are from the trainer's, on one rank.

    Attributes:
        total: Sum over the tokens where both are known.
        largest: Largest of them.
        known: Number of these tokens.
        tokens: Number of all tokens.
        excess_total: Sum of what truncation of the sampled distribution (`top_p`, `top_k`) does not explain.
        excess_largest: Largest of that.
        excess_tail: Number of tokens where that is above the limit of a percentile.
        place: Where it is largest: task, turn, token of the reply.
    """

    total: float
    largest: float
    known: int
    tokens: int
    excess_total: float
    excess_largest: float
    excess_tail: int
    place: str


def measure_differences(
    sampler: Tensor, trainer: Tensor, trajectories: Sequence[Trajectory], *, top_p: float = 1.0, top_k: int = 0
) -> Differences:
    """Compare a rank's log-probabilities.

    A truncated distribution gives each of its tokens more probability than the whole one, by a factor of at most
    `1 / top_p` and, with `top_k`, of any size. Only what lies beyond is a disagreement.

    Args:
        sampler: [M] as the sampler gave them, NaN where it gave none.
        trainer: [M] of the training pass.
        trajectories: Whose tokens they are, in order.
        top_p: The sampler's.
        top_k: The sampler's.
    """
    signed = sampler.double() - trainer.double()
    finite = signed[signed.isfinite()].abs()
    signed = signed.nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf)
    allowed = math.inf if top_k else -math.log(top_p)
    excess = torch.where(signed > 0, (signed - allowed).clamp(min=0.0).nan_to_num(), -signed)
    worst = int(excess.argmax()) if len(excess) else 0
    return Differences(
        total=float(finite.sum()),
        largest=float(finite.max()) if len(finite) else 0.0,
        known=len(finite),
        tokens=len(signed),
        excess_total=float(excess.sum()),
        excess_largest=float(excess.max()) if len(excess) else 0.0,
        excess_tail=int((excess > _LIMIT_TAIL).sum()),
        place=_place(worst, trajectories),
    )


def mean_excess(ranks: Sequence[Differences]) -> float:
    """The mean distance, in nats, that truncation does not explain; over the tokens where both are known."""
    return sum(rank.excess_total for rank in ranks) / max(sum(rank.known for rank in ranks), 1)


def warn_of_difference(ranks: Sequence[Differences], bound: float) -> bool:
    """Warn where another engine's log-probabilities are further away than expected.

    What it samples is weighed by the distance (`importance_sampling_correction`), so that a run may go on.

    Args:
        ranks: Of all ranks, of one rollout.
        bound: Nats in the mean.

    Returns:
        Whether they are.
    """
    mean = mean_excess(ranks)
    if mean <= bound:
        return False
    worst = max(ranks, key=lambda rank: rank.excess_largest)
    _LOGGER.warning(
        "the sampler's log-probabilities differ from the trainer's by %.3g nats in the mean (max_logp_difference=%g), "
        "up to %.3g at %s: it rounds otherwise, in another precision for example, or holds other weights",
        mean,
        bound,
        worst.excess_largest,
        worst.place,
    )
    return True


def refuse_disagreement(ranks: Sequence[Differences], *, exact: bool, foreign: bool = False) -> None:
    """Stop a run whose sampler and trainer disagree.

    Args:
        ranks: Of all ranks, of one rollout.
        exact: Whether both computed in float32.
        foreign: Whether another engine sampled, whose rounding is corrected for and stops nothing.

    Raises:
        ValueError: By how much they differ, and where most.
    """
    known = max(sum(rank.known for rank in ranks), 1)
    worst = max(ranks, key=lambda rank: rank.excess_largest)
    mean, tail = mean_excess(ranks), sum(rank.excess_tail for rank in ranks) / known
    if foreign:
        limit = _FOREIGN * _LIMIT_MEAN
        if mean <= limit:
            return
        found = f"{mean:.3g} nats in the mean (limit {limit:g} for another engine), up to {worst.excess_largest:.3g}"
    elif exact and worst.excess_largest > LIMIT:
        found = f"up to {worst.excess_largest:.3g} nats (limit {LIMIT} in float32)"
    elif not exact and mean > _LIMIT_MEAN:
        found = f"{mean:.3g} nats in the mean (limit {_LIMIT_MEAN} in 16 bits), up to {worst.excess_largest:.3g}"
    elif not exact and tail > 0.01:
        found = (
            f"more than {_LIMIT_TAIL} nats at {tail:.1%} of the tokens (limit 1 % in 16 bits), "
            f"up to {worst.excess_largest:.3g}"
        )
    else:
        return
    raise ValueError(
        f"in the first rollout the sampler's log-probabilities differ from the trainer's by {found}, most at "
        f"{worst.place}. The run would learn from ratios that are wrong. A flow or generator of your own has to sample "
        "from the policy it is given, at the temperature of the settings, and to return the sampled ids with their own "
        "log-probabilities, or None for them"
    )


def computes_exactly(model: nn.Module) -> bool:
    """Whether all weights have at least 32 bits."""
    return all(parameter.dtype.itemsize >= 4 for parameter in model.parameters())


def _place(token: int, trajectories: Sequence[Trajectory]) -> str:
    for trajectory in trajectories:
        for turn, step in enumerate(trajectory.steps):
            if token < len(step.response_ids):
                env = f" of {trajectory.env}" if trajectory.env else ""
                return f"token {token} of the reply of turn {turn} in task {trajectory.task_id!r}{env}"
            token -= len(step.response_ids)
    return "no token"
