"""What an advantage estimator reads and what it returns.

Which steps saw the same state is in the batch as numbers; `anchor_numbers` makes them of what the steps recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Credit", "CreditBatch", "Floats", "Integers", "anchor_numbers"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CreditBatch:
    """The steps of the GLOBAL batch (of all ranks), trajectory after trajectory, without the masked ones.

    N is the number of steps, K the number of trajectories and M the number of response tokens, in the order of the
    steps. Every rank builds the same batch (gather the arrays, then order the trajectories by ``(group, sample)``), so
    that every rank computes the same advantages.

    Attributes:
        rewards: [N] reward of each step.
        values: [N] the critic's ``V(s_t)``, in units of the reward; zeros where the estimator uses no critic.
        trajectory: [N] which trajectory (0..K-1) a step belongs to, ascending; steps of one are in order of time.
        final_values: [K] value after the last step: 0 where the end is terminal, else the bootstrap.
        groups: [K] group of each trajectory: samples of the same task and reset seed share one.
        response_lengths: [N] number of response tokens of each step, 0 allowed. One each if not given: only estimators
            over tokens read it.
        token_values: [M] the critic's value at the position that predicts each response token: that of the first token
            of a step is ``V(s_t)``. None where the estimator is not one over tokens with a critic.
        anchors: [N] equal numbers mark steps that saw the same state; they are compared within a group only. None where
            nobody asked for them. `anchor_numbers` makes them from `Step.anchor`.
        scales: [K] above 0, how much returns differ in the environment of each trajectory: their running deviation.
            None where that is not known. See `whiten`.
    """

    rewards: Floats
    values: Floats
    trajectory: Integers
    final_values: Floats
    groups: Integers
    response_lengths: Integers = None  # type: ignore[assignment]  # an array after __post_init__
    token_values: Floats | None = None
    anchors: Integers | None = None
    scales: Floats | None = None

    def __post_init__(self) -> None:
        """Convert to float64 and int64 and check the shapes.

        Raises:
            ValueError: Arrays that do not fit together, negative lengths, or steps that are not in order.
        """
        if self.response_lengths is None:
            object.__setattr__(self, "response_lengths", np.ones(np.size(self.rewards)))
        for name, kind in _FIELDS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, np.asarray(value, dtype=kind).reshape(-1))
        steps, count = self.rewards.size, self.final_values.size
        if self.values.size != steps or self.trajectory.size != steps:
            raise ValueError(
                f"rewards, values and trajectory must have one entry a step, got {steps}, {self.values.size} and "
                f"{self.trajectory.size}"
            )
        if self.groups.size != count:
            raise ValueError(f"final_values has {count} trajectories and groups has {self.groups.size}")
        if steps and (self.trajectory[0] < 0 or self.trajectory[-1] >= count or np.any(np.diff(self.trajectory) < 0)):
            raise ValueError(f"trajectory must ascend within 0..{count - 1}: one trajectory's steps after another's")
        if self.response_lengths.size != steps or np.any(self.response_lengths < 0):
            raise ValueError(
                f"response_lengths must have one entry a step, none below 0; got {self.response_lengths.size} for "
                f"{steps} steps, the smallest {self.response_lengths.min(initial=0)}"
            )
        if self.token_values is not None and self.token_values.size != self.num_tokens:
            raise ValueError(
                f"token_values must have one entry a response token: {self.token_values.size} values, but "
                f"response_lengths add up to {self.num_tokens}"
            )
        if self.anchors is not None and self.anchors.size != steps:
            raise ValueError(f"anchors must have one entry a step, got {self.anchors.size} for {steps} steps")
        if self.scales is not None and (self.scales.size != count or not np.all(self.scales > 0)):
            raise ValueError(f"scales must have one entry above 0 for each of {count} trajectories, got {self.scales}")

    def select(self, trajectories: NDArray[np.bool_] | Sequence[bool]) -> "CreditBatch":
        """Return the batch of some of the trajectories, their steps and tokens in the same order.

        Args:
            trajectories: [K] bool, True for those to keep. ``trajectories[batch.trajectory]`` are their steps here.

        Raises:
            ValueError: The mask is not one bool a trajectory.
        """
        mask = np.asarray(trajectories)
        if mask.shape != self.final_values.shape or (mask.dtype != np.bool_ and mask.size):
            raise ValueError(f"the mask must be [{self.final_values.size}] bool, got {mask.dtype} {mask.shape}")
        mask = mask.astype(np.bool_)
        steps = mask[self.trajectory]
        tokens = steps[self.token_step]
        return CreditBatch(
            rewards=self.rewards[steps],
            values=self.values[steps],
            trajectory=(np.cumsum(mask) - 1)[self.trajectory[steps]],
            final_values=self.final_values[mask],
            groups=self.groups[mask],
            response_lengths=self.response_lengths[steps],
            token_values=None if self.token_values is None else self.token_values[tokens],
            anchors=None if self.anchors is None else self.anchors[steps],
            scales=None if self.scales is None else self.scales[mask],
        )

    @property
    def num_tokens(self) -> int:
        """M, number of response tokens."""
        return int(self.response_lengths.sum())

    @property
    def token_step(self) -> Integers:
        """[M] step (0..N-1) of each response token."""
        return np.repeat(np.arange(self.rewards.size, dtype=np.int64), self.response_lengths)

    def owners(self, level: Literal["step", "token"]) -> Integers:
        """[N] or [M] trajectory of each step, or of each response token."""
        return self.trajectory[self.token_step] if level == "token" else self.trajectory

    @property
    def returns(self) -> Floats:
        """[K] undiscounted return of each trajectory."""
        totals = np.bincount(self.trajectory, weights=self.rewards, minlength=self.final_values.size)
        return totals.astype(np.float64)

    @property
    def lengths(self) -> Integers:
        """[K] number of steps of each trajectory."""
        return np.bincount(self.trajectory, minlength=self.final_values.size).astype(np.int64)

    @property
    def time(self) -> Integers:
        """[N] position of each step in its trajectory, from 0."""
        lengths = self.lengths
        starts = np.cumsum(lengths) - lengths
        return np.arange(self.trajectory.size, dtype=np.int64) - starts[self.trajectory]


_FIELDS = {
    "rewards": np.float64,
    "values": np.float64,
    "trajectory": np.int64,
    "final_values": np.float64,
    "groups": np.int64,
    "response_lengths": np.int64,
    "token_values": np.float64,
    "anchors": np.int64,
    "scales": np.float64,
}


@dataclass(frozen=True, eq=False)
class Credit:
    """The estimator's answer, in the order of the batch's steps, or of their tokens for one of level "token".

    Attributes:
        advantages: [N] or [M] as they enter the policy loss: whitened or normalised already, as the estimator defines.
        returns: [N] or [M] targets of the critic, ``None`` where the estimator uses no critic.
    """

    advantages: Floats
    returns: Floats | None = None


def anchor_numbers(anchors: Sequence[str]) -> Integers:
    """Number the anchors of steps, for `CreditBatch.anchors`.

    Equal strings get equal numbers. An empty one means that nobody said which state it was: such a step gets a number
    of its own, so that it is compared with no other.

    Args:
        anchors: `Step.anchor` of the steps of all ranks, in the order of the batch.

    Returns:
        [N] int64.

    >>> anchor_numbers(["kitchen", "hall", "", "kitchen", ""]).tolist()
    [0, 1, -1, 0, -2]
    """
    # A table and no array of strings: that would drop zeros at their ends, and be as wide as the longest of them.
    numbers: dict[str, int] = {}
    unknown = -1
    result = np.empty(len(anchors), dtype=np.int64)
    for index, anchor in enumerate(anchors):
        if anchor:
            result[index] = numbers.setdefault(anchor, len(numbers))
        else:
            result[index] = unknown
            unknown -= 1
    return result
