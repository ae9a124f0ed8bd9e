"""Running a flow on every process, and a look at what it brings back before anything is computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accelerate import Accelerator

from agent_r1_trainer.environments.contract import (
    REWARD,
    REWARD_LIMIT,
    ContractError,
    as_number,
    check_field,
    check_ids,
    checked_info,
    error_text,
    shown,
)
from agent_r1_trainer.flows.base import AgentFlowBase, Assignment
from agent_r1_trainer.generation.protocol import Generator, SamplingParams
from agent_r1_trainer.learning.distributed import own_share, together
from agent_r1_trainer.metrics import summarize
from agent_r1_trainer.packing import continues
from agent_r1_trainer.trajectory import Step, StopReason, TokenIds, Trajectory

__all__ = ["check_trajectories", "collect"]

_IDS = "it must be a list of token ids, with one at least"


def collect(
    flow: AgentFlowBase,
    accelerator: Accelerator,
    assignments: Sequence[Assignment],
    generator: Generator,
    sampling: SamplingParams,
    *,
    policy_version: int,
    vocabulary: int | None = None,
) -> list[Trajectory]:
    """Run this process's share of some episodes.

    Args:
        flow: Runs them.
        accelerator: Divides them among the processes.
        assignments: Of all processes.
        generator: Of the policy.
        sampling: How replies are sampled.
        policy_version: Recorded on every step.
        vocabulary: Size of the policy's vocabulary; None does not limit ids.

    Returns:
        Trajectories that can be computed with; those that cannot are masked.

    Raises:
        Exception: What the flow raised, on every process if it did so on one: none waits for it in vain.
    """
    mine = own_share(accelerator, assignments)

    def run() -> list[Trajectory]:
        found = flow.run(mine, generator, sampling, policy_version=policy_version)
        return check_trajectories(type(flow).__name__, mine, found, vocabulary)

    return together(accelerator, run)


def check_trajectories(
    name: str, assignments: Sequence[Assignment], trajectories: Any, vocabulary: int | None = None
) -> list[Trajectory]:
    """Put an empty, masked trajectory, with the reason as its error, in the place of each that cannot be used.

    Args:
        name: Of the flow, for errors.
        assignments: What it was given.
        trajectories: What it returned; numbers in other types that have one reading become plain ones.
        vocabulary: Token ids must be below this; None does not limit them.

    Raises:
        ContractError: It returned something else than one trajectory an assignment.
    """
    found = list(trajectories) if isinstance(trajectories, (list, tuple)) else None
    if found is None or len(found) != len(assignments) or not all(isinstance(t, Trajectory) for t in found):
        raise ContractError(
            f"{name}.run() returned {shown(trajectories)}: it must be a list of one Trajectory for each of the "
            f"{len(assignments)} assignments, in their order"
        )
    return [
        _usable(*pair, f"trajectory {i} of {name}", vocabulary)
        for i, pair in enumerate(zip(found, assignments, strict=True))
    ]


def _usable(trajectory: Trajectory, assignment: Assignment, where: str, vocabulary: int | None) -> Trajectory:
    """The trajectory, or in the place of one that cannot be computed with an empty one that is masked."""
    try:
        _check_frame(trajectory, assignment, where)
        if not trajectory.masked:
            _check(trajectory, where, vocabulary)
        summarize(trajectory)
        return trajectory
    except ContractError as error:
        problem = error
    except Exception as error:  # whatever an object of a user does when it is looked at
        problem = ContractError(f"{where} cannot be read: {error_text(error)}")
    return assignment.failed(shown(trajectory.task_id), error_text(problem), breach=True)


def _check_frame(trajectory: Trajectory, assignment: Assignment, where: str) -> None:
    """Check what is read of masked ones too: whose it is, and how it ended."""
    for field in ("group", "sample", "env"):
        has, wanted = getattr(trajectory, field), getattr(assignment, field)
        if has != wanted:
            raise ContractError(f"{where} has {field} = {shown(has)}: its assignment says {wanted!r}")
    if not isinstance(trajectory.stop, StopReason):
        raise ContractError(f"{where} has stop = {shown(trajectory.stop)}: it must be a StopReason")
    if not isinstance(trajectory.error, str):
        raise ContractError(f"{where} has error = {shown(trajectory.error)}: it must be a string")


def _check(trajectory: Trajectory, where: str, vocabulary: int | None) -> None:
    if not trajectory.steps:
        raise ContractError(f"{where} has no steps: an episode without any must be masked")
    read = {name: getattr(trajectory, name) for name in ("success", "score", "reward_info", "task_id")}
    for field, value in checked_info(read, f"{where} has").items():
        setattr(trajectory, field, value)
    before = TokenIds()
    for turn, step in enumerate(trajectory.steps):
        step.prompt_ids = _checked_prompt(step.prompt_ids, before, f"{where}, step {turn}, has prompt_ids", vocabulary)
        _check_step(step, f"{where}, step {turn},", vocabulary)
        if step.extends and turn and not continues(trajectory.steps[turn - 1], step):
            raise ContractError(f"{where}, step {turn}, extends the step before, but its prompt begins otherwise")
        before = step.prompt_ids
    if trajectory.final_prompt_ids is not None:
        trajectory.final_prompt_ids = _checked_prompt(
            trajectory.final_prompt_ids, before, f"{where} has final_prompt_ids", vocabulary
        )


def _checked_prompt(ids: Any, before: TokenIds, where: str, vocabulary: int | None) -> TokenIds:
    """The ids of a prompt, sharing memory with the prompt before, of which a beginning that they share was checked."""
    if not isinstance(ids, TokenIds):
        return before.grown_to(check_ids(ids, where, _IDS, vocabulary))
    known = len(before) if ids.shares(before) else 0
    if len(ids) > known or not len(ids):
        check_ids(ids[known:], where, _IDS, vocabulary)
    return ids


def _check_step(step: Step, where: str, vocabulary: int | None) -> None:
    step.response_ids = check_ids(step.response_ids, f"{where} has response_ids", _IDS, vocabulary)
    step.reward = check_field(as_number(step.reward, REWARD_LIMIT), step.reward, f"{where} has reward", REWARD)
    for field in ("text", "anchor"):
        if not isinstance(getattr(step, field), str):
            raise ContractError(f"{where} has {field} = {shown(getattr(step, field))}: it must be a string")
    if step.logprobs is None:
        return
    logprobs = [float(x) if isinstance(x, float) else as_number(x) for x in step.logprobs]  # NaN is one that is missing
    if None in logprobs or len(logprobs) != len(step.response_ids):
        raise ContractError(
            f"{where} has logprobs = {shown(step.logprobs)} for {len(step.response_ids)} response_ids: there must be "
            "one number for each, or None for all"
        )
