"""What a rollout leaves behind: steps, trajectories, and why an episode stopped.

A *step* is one decision of the policy: the whole prompt it read and the whole response it sampled. Everything that the
trainer computes (values, advantages, ratios) is indexed by step; tokens only matter inside one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from agent_r1_trainer.token_ids import TokenIds

__all__ = ["Step", "StopReason", "Trajectory", "discounted_returns"]


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
