"""What a rollout leaves behind: steps, trajectories, and why an episode stopped.

A *step* is one decision of the policy: the whole prompt it read and the whole response it sampled. Everything that the
trainer computes (values, advantages, ratios) is indexed by step; tokens only matter inside one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Step", "StopReason", "TokenIds", "Trajectory", "discounted_returns"]

_TYPE = "i"  # four bytes


class TokenIds(Sequence[int]):
    """Token ids that nobody changes; a sequence that extends another shares the memory of its beginning.

    The prompts of an episode mostly grow: each is the last one, the reply to it, and something new. Kept one by one
    they would take the square of the episode's length. So they are beginnings of one array, to which `extended` adds.

    It reads like a list: it is equal to a list of the same ids, and slices and sums are lists.

    Args:
        ids: Each must fit into 32 bits.

    >>> prompt = TokenIds([5, 6])
    >>> longer = prompt.extended([7, 8])
    >>> list(prompt), longer[1:], longer.starts_with(prompt), prompt + [9]
    ([5, 6], [6, 7, 8], True, [5, 6, 9])
    """

    __slots__ = ("_array", "_count")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._array = array(_TYPE, ids)
        self._count = len(self._array)

    @classmethod
    def _beginning(cls, ids: array[int], count: int) -> TokenIds:
        made = cls.__new__(cls)
        made._array, made._count = ids, count
        return made

    def extended(self, more: Iterable[int]) -> TokenIds:
        """These ids and more, which cost only what is added; where others were added before, all are copied."""
        if self._count < len(self._array):
            return TokenIds([*self, *more])
        try:
            self._array.extend(array(_TYPE, more))
        except BufferError:  # somebody looks at the memory, as `np.asarray` does
            return TokenIds([*self, *more])
        return self._beginning(self._array, len(self._array))

    def grown_to(self, ids: Sequence[int]) -> TokenIds:
        """Some ids, sharing memory with these where they begin with them."""
        if isinstance(ids, TokenIds) and ids._array is self._array:
            return ids
        made = TokenIds(ids)
        return self.extended(made._array[self._count :]) if made.starts_with(self) else made

    def shares(self, other: Sequence[int]) -> bool:
        """Whether both are beginnings of one array, so that the shorter begins the longer."""
        return isinstance(other, TokenIds) and other._array is self._array

    def starts_with(self, other: Sequence[int]) -> bool:
        """Whether these ids begin with others; of ids that share memory it is known without a look."""
        if len(other) > self._count:
            return False
        return self.shares(other) or self._array[: len(other)] == TokenIds(other)._exact()

    def common_prefix(self, other: TokenIds) -> int:
        """Length of the longest beginning that both have."""
        count = min(self._count, other._count)
        if self.shares(other):
            return count
        differ = np.flatnonzero(np.asarray(self)[:count] != np.asarray(other)[:count])
        return int(differ[0]) if len(differ) else count

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """A copy, [n] int64 unless told otherwise."""
        return np.frombuffer(self._array, dtype=np.intc, count=self._count).astype(np.int64 if dtype is None else dtype)

    def tobytes(self) -> bytes:
        """The ids as the machine keeps them, equally many bytes each."""
        return self._exact().tobytes()

    def _exact(self) -> array[int]:
        return self._array if len(self._array) == self._count else self._array[: self._count]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return iter(self._exact().tolist())

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            begin, end, step = index.indices(self._count)
            if step == 1:
                return self._array[begin:end].tolist()
            return [self._array[at] for at in range(begin, end, step)]
        return self._array[range(self._count)[index]]

    def __add__(self, more: Sequence[int]) -> list[int]:
        return [*self, *more]

    def __radd__(self, before: Sequence[int]) -> list[int]:
        return [*before, *self]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TokenIds):
            return self._count == other._count and self.starts_with(other)
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenIds._beginning, (self._array, self._count)

    def __repr__(self) -> str:
        return f"TokenIds({list(self)})"


class StopReason(StrEnum):
    """Why an episode ended."""

    TERMINATED = "terminated"
    """The task ended by its own rules."""
    TURN_LIMIT = "turn_limit"
    """The turn limit of the benchmark (Gymnasium's TimeLimit): the end of a finite horizon, so its value is 0."""
    FOREIGN_LIMIT = "foreign_limit"
    """A limit that is no part of the task (the env marks it): the value of the next prompt is worth asking for."""
    PROMPT_TOO_LONG = "prompt_too_long"
    """The next prompt leaves no room for a response in the context window."""
    FAILED = "failed"
    """The environment or a tool raised: the trajectory is masked."""


@dataclass(slots=True)
class Step:
    """One turn of the policy.

    Attributes:
        prompt_ids: The whole prompt, as token ids; never empty. The value of the step is read at its last token. A flow
            may give a list. What the trainer goes on with are `TokenIds`, which read like one: a prompt that extends
            the one before shares its memory.
        response_ids: The ids that were sampled, all of them and no other (the stop id too, if it was sampled).
        reward: Sum of the rewards that the environment gave for this turn, unscaled.
        logprobs: The sampler's log-probability of each response id, or None where it gave none. May hold NaN.
        terminated: The task ended with this step.
        truncated: A limit ended the episode with this step (it may come together with ``terminated``).
        extends: ``prompt_ids`` starts with the previous step's ``prompt_ids + response_ids``.
        policy_version: Number of optimizer steps behind the weights that sampled the response.
        turn: Position of the step in its episode, from 0.
        finish: ``"stop"`` if a stop id or string ended the response, ``"length"`` if it hit its limit.
        invalid: The environment called the action invalid.
        text: The response, decoded, as the environment got it.
        anchor: What tells the state in which the step was taken from others, for estimators that group steps by it
            (GiGPO); empty if nobody asked for it.
    """

    prompt_ids: list[int] | TokenIds
    response_ids: list[int]
    reward: float = 0.0
    logprobs: list[float] | None = None
    terminated: bool = False
    truncated: bool = False
    extends: bool = False
    policy_version: int = 0
    turn: int = 0
    finish: Literal["stop", "length"] = "stop"
    invalid: bool = False
    text: str = ""
    anchor: str = ""


@dataclass(slots=True)
class Trajectory:
    """One episode.

    Attributes:
        task_id: The environment's id of the task.
        steps: The steps in order. May be empty only in a masked trajectory.
        stop: Why the episode ended.
        success: The benchmark's own verdict.
        score: The benchmark's own metric, 0 to 1.
        group: Number of the task within the batch: the samples of one task share it.
        sample: Number of the sample within its group.
        env: Name of the environment in a mixture; empty where there is one only.
        final_prompt_ids: The prompt that would have come next, where the episode stopped at a limit and that prompt
            fits the context window; the value of a bootstrap is read at its last token.
        masked: Leave the trajectory out of every statistic and of the loss.
        error: What went wrong in a failed episode.
        breach: It failed because its environment or flow returned what nobody can use; see `env_contract`.
        repaired: Texts of the environment that had to be repaired.
        reward_info: Components of the benchmark's reward at the end.
        split_tokens: Marks of turns that others wrote into the prompts and that were split into letters.
        info: Anything else worth keeping (written to logs, never read by the mathematics).
    """

    task_id: str
    steps: list[Step]
    stop: StopReason
    success: bool = False
    score: float = 0.0
    group: int = 0
    sample: int = 0
    env: str = ""
    final_prompt_ids: list[int] | TokenIds | None = None
    masked: bool = False
    error: str = ""
    breach: bool = False
    repaired: int = 0
    reward_info: dict[str, float] = field(default_factory=dict)
    split_tokens: int = 0
    info: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.steps)

    @property
    def rewards(self) -> list[float]:
        """Reward of each step, unscaled."""
        return [step.reward for step in self.steps]

    @property
    def total_reward(self) -> float:
        """Undiscounted return of the episode."""
        return float(sum(self.rewards))


def discounted_returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """Discounted return from each step on: ``G_t = r_t + gamma G_{t+1}``.

    Args:
        rewards: Rewards of one trajectory, in order.
        gamma: Discount per step.

    Returns:
        As many returns as there are rewards.
    """
    returns: list[float] = []
    following = 0.0
    for reward in reversed(rewards):
        following = reward + gamma * following
        returns.append(following)
    return returns[::-1]
