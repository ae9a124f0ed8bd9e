"""The flow of one prompt, one reply and one reward."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_r1_trainer.environments.contract import (
    REWARD,
    REWARD_LIMIT,
    ContractError,
    as_number,
    check_field,
    check_observation,
    error_text,
    mended,
)
from agent_r1_trainer.flows.base import AgentFlowBase, Assignment, FlowTimes
from agent_r1_trainer.flows.failures import FailurePolicy
from agent_r1_trainer.generation.protocol import GenerationError, Generator, SamplingParams
from agent_r1_trainer.prompts import PromptBuilder, reply_text
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory

__all__ = ["SingleStepFlow"]


class SingleStepFlow(AgentFlowBase):
    """Question answering without an environment: each task is a prompt, and a function scores the reply.

    Args:
        prompts: The panel: text, messages or token ids, one entry a task.
        reward: `reward(task position, reply text)` gives the reward. Where it raises, or gives no finite number, the
            episode is masked; so it is where a prompt is none, the chat template refuses it, or the reply cannot be
            had (`Generation.error`).
        tokenizer: Renders prompts and decodes replies.
        max_prompt_length: A task with a longer prompt is masked.
        failures: Whether an episode that failed is masked or ends the run; none is played again.
        success_threshold: A reward of at least this counts as success.
        chat_template_kwargs: Passed to the chat template.
    """

    def __init__(
        self,
        prompts: Sequence[Any],
        reward: Callable[[int, str], float],
        tokenizer: Any,
        *,
        max_prompt_length: int,
        success_threshold: float = 1.0,
        failures: FailurePolicy | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.times = FlowTimes()
        self._prompts = prompts
        self._reward = reward
        self._tokenizer = tokenizer
        self._max_prompt_length = max_prompt_length
        self._success_threshold = success_threshold
        self._failures = FailurePolicy() if failures is None else failures
        self._template_kwargs = dict(chat_template_kwargs or {})

    @property
    def num_tasks(self) -> int:
        """Number of prompts."""
        return len(self._prompts)

    @property
    def turn_limits(self) -> Mapping[str, int | None]:
        """One reply."""
        return {"": 1}

    def run(
        self,
        assignments: Sequence[Assignment],
        generator: Generator,
        sampling: SamplingParams,
        *,
        policy_version: int = 0,
    ) -> list[Trajectory]:
        """Answer every assigned prompt once; see `AgentFlowBase.run`.

        Raises:
            TypeError: If an assignment's task is not a position.
            EpisodeFailedError: An episode failed, and the policy for failures is to raise.
        """
        self.times = FlowTimes()
        started = time.perf_counter()
        trajectories = [assignment.failed(str(assignment.task), error="") for assignment in assignments]
        prompts = [self._prompt(*pair) for pair in zip(trajectories, assignments, strict=True)]
        fitting = [row for row, trajectory in enumerate(trajectories) if not trajectory.error]
        self.times.environment += time.perf_counter() - started
        started = time.perf_counter()
        replies = generator.generate(
            [prompts[row] for row in fitting], sampling, [assignments[row].reply_seed(0) for row in fitting]
        )
        self.times.generation += time.perf_counter() - started
        started = time.perf_counter()
        for row, reply in zip(fitting, replies, strict=True):
            if reply.error:
                _fail(trajectories[row], GenerationError(reply.error))
                continue
            text = reply_text(self._tokenizer, reply.ids, sampling.stop_token_ids)
            step = Step(
                prompt_ids=prompts[row],
                response_ids=reply.ids,
                logprobs=reply.logprobs,
                terminated=True,
                policy_version=policy_version,
                finish=reply.finish,
                text=text,
            )
            self._score(trajectories[row], step, assignments[row])
        for trajectory in trajectories:
            self._failures.check(trajectory, 0, environment=False)
        self.times.environment += time.perf_counter() - started
        return trajectories

    def _prompt(self, trajectory: Trajectory, assignment: Assignment) -> list[int]:
        """The prompt of an assignment; where there is none to use, the trajectory says why."""
        task = assignment.task
        if not isinstance(task, int):
            raise TypeError(f"SingleStepFlow finds its tasks by position, got {task!r}")
        try:
            builder = PromptBuilder(self._tokenizer, chat_template_kwargs=self._template_kwargs)
            given = check_observation(self._prompts[task], f"the prompt of task {task}", len(self._tokenizer))
            given, trajectory.repaired = mended(given)
            prompt = list(builder.first(given))
            trajectory.split_tokens = builder.split_tokens
        except Exception as error:
            _fail(trajectory, error)
            return []
        if len(prompt) > self._max_prompt_length:
            trajectory.stop = StopReason.PROMPT_TOO_LONG
            trajectory.error = (
                f"the prompt of task {task} has {len(prompt)} tokens, more than {self._max_prompt_length}"
            )
        return prompt

    def _score(self, trajectory: Trajectory, step: Step, assignment: Assignment) -> None:
        trajectory.steps = [step]
        try:
            reward = self._reward(int(assignment.task or 0), step.text)
            where = f"the reward function gave task {assignment.task} the reward"
            step.reward = check_field(as_number(reward, REWARD_LIMIT), reward, where, REWARD)
        except Exception as error:  # whatever a user's reward function raises
            _fail(trajectory, error)
            return
        trajectory.stop, trajectory.masked = StopReason.TERMINATED, False
        trajectory.success = step.reward >= self._success_threshold
        trajectory.score = float(trajectory.success)


def _fail(trajectory: Trajectory, error: Exception) -> None:
    trajectory.error = error_text(error)
    trajectory.breach = isinstance(error, ContractError)
