"""One episode of an environment, seen from the policy: prompts out, replies in.

A step may record its anchor, which tells the state that it was taken in from others, for estimators that compare steps
taken in the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import gymnasium

from agent_r1_envs.digest import digest
from agent_r1_envs.errors import SnapshotError
from agent_r1_trainer.environments.contract import CheckedEnv, ContractError, error_text, verdict
from agent_r1_trainer.flows.base import Assignment
from agent_r1_trainer.generation.protocol import Generation, GenerationError, SamplingParams
from agent_r1_trainer.prompts import HistoryThinking, PromptBuilder, reply_text
from agent_r1_trainer.trajectory import Step, StopReason, TokenIds, Trajectory

__all__ = ["AnchorKind", "Episode", "record_observations", "state_anchor"]

AnchorKind = Literal["state", "observation"]


class Episode:
    """Keeps the steps of one episode and the prompt that waits for a reply.

    Args:
        env: The environment; one episode at a time.
        assignment: What to run.
        tokenizer: Decodes replies.
        max_prompt_length: The episode stops before a prompt longer than this.
        stop_ids: Ids that end a reply.
        own: Replies of the environment's action format; see `PromptBuilder`.
        policy_version: Recorded on every step.
        history_thinking: See `PromptBuilder`.
        chat_template_kwargs: For every prompt; those of the environment's reset info are added.
        step_anchor: What every step records as its state: see `state_anchor`. None records nothing.
    """

    def __init__(
        self,
        env: CheckedEnv,
        assignment: Assignment,
        tokenizer: Any,
        *,
        max_prompt_length: int,
        stop_ids: Sequence[int],
        own: str = "",
        policy_version: int = 0,
        history_thinking: HistoryThinking = "keep",
        chat_template_kwargs: dict[str, Any] | None = None,
        step_anchor: AnchorKind | None = None,
    ) -> None:
        self.env = env
        self.assignment = assignment
        self._prompt = TokenIds()
        self.stop: StopReason | None = None
        self._tokenizer = tokenizer
        self._max_prompt_length = max_prompt_length
        self._stop_ids = stop_ids
        self._own = own
        self._stop_strings: Sequence[str] = ()
        self._policy_version = policy_version
        self._history_thinking = history_thinking
        self._template_kwargs = dict(chat_template_kwargs or {})
        self._step_anchor = step_anchor
        self._anchor = ""
        self._extends = False
        self._steps: list[Step] = []
        self._final_prompt_ids: TokenIds | None = None
        self._error = ""
        self._spoilt = False
        self._breach = False
        self._repaired = env.repaired
        self._info: dict[str, Any] = {}
        self._protocol: dict[str, Any] = {}
        self._observation: Any = None
        self._action: Any = None
        self._builder: PromptBuilder | None = None

    @property
    def prompt_ids(self) -> list[int]:
        """The prompt that waits for a reply."""
        return list(self._prompt)

    @property
    def turn(self) -> int:
        """Number of replies so far."""
        return len(self._steps)

    @property
    def spoilt(self) -> bool:
        """Whether the episode failed, and its environment may be to blame: nobody should play in that again."""
        return self._spoilt

    def begin(self) -> None:
        """Reset the environment and make the first prompt; what goes wrong ends the episode."""
        self._guard(self.reset, self.make_first_prompt)

    def advance(self, reply: Generation) -> None:
        """Pass a reply on and make the next prompt; what goes wrong ends the episode."""
        if reply.error:
            self.fail(GenerationError(reply.error), spoilt=False)
            return
        self._guard(lambda: self.step(reply), self.make_next_prompt)

    def _guard(self, *acts: Callable[[], None]) -> None:
        """Do some things in turn; an exception ends this episode only, and is named.

        It may be a fault of this package as well as one of the environment or the template. Then too the rest of the
        batch is worth keeping, and where it is no accident `max_masked_ratio` stops the run.
        """
        try:
            for act in acts:
                act()
        except Exception as error:
            self.fail(error)

    def sampling(self, common: SamplingParams) -> SamplingParams:
        """How to sample the next reply: as all are, but ending also at the strings that the environment asks for."""
        strings = dict.fromkeys((*common.stop_strings, *self._stop_strings))
        return common if len(strings) == len(common.stop_strings) else replace(common, stop_strings=tuple(strings))

    def reset(self) -> None:
        """Reset the environment."""
        task = self.assignment.task
        options = None if task is None else {"task": task}
        if self._step_anchor is not None:
            record_observations(self.env)
        self._observation, self._info = self.env.reset(seed=self.assignment.seed, options=options)
        self._record_anchor()
        self._protocol = self._info.get("protocol", {})
        self._stop_strings = self._info.get("stop_strings", ())

    def make_first_prompt(self) -> None:
        """Make the first prompt from what `reset` returned."""
        kwargs = {**self._template_kwargs, **self._info.get("chat_template_kwargs", {})}
        self._builder = PromptBuilder(
            self._tokenizer, chat_template_kwargs=kwargs, history_thinking=self._history_thinking, own=self._own
        )
        self._prompt = self._builder.first(self._observation)
        if len(self._prompt) > self._max_prompt_length:
            self.stop = StopReason.PROMPT_TOO_LONG
            task = self.assignment.task
            self._error = (
                f"the first prompt{'' if task is None else f' of task {task!r}'} has {len(self._prompt)} tokens, more "
                "than the "
                f"{self._max_prompt_length} that max_prompt_length and the model's context allow"
            )

    def step(self, reply: Generation) -> None:
        """Record the reply and pass it on."""
        text = reply_text(self._tokenizer, reply.ids, self._stop_ids)
        step = Step(
            prompt_ids=self._prompt,
            response_ids=reply.ids,
            logprobs=reply.logprobs,
            extends=self._extends,
            policy_version=self._policy_version,
            turn=self.turn,
            finish=reply.finish,
            text=text,
            anchor=self._anchor,
        )
        self._steps.append(step)
        self._observation, step.reward, step.terminated, step.truncated, self._info = self.env.step(text)
        step.invalid = "invalid_action" in self._info
        self._record_anchor()

    def _record_anchor(self) -> None:
        """Take down the state that the next reply is given in."""
        if self._step_anchor is not None:
            self._anchor = state_anchor(self.env, self._observation, self._step_anchor)

    def make_next_prompt(self) -> None:
        """Make the prompt of the next step, or say why the last step was the end.

        `terminated` is tested before `truncated`: Gymnasium's TimeLimit may add the latter to a win on the last turn.
        """
        step = self._steps[-1]
        if step.terminated:
            self.stop = StopReason.TERMINATED
            return
        assert self._builder is not None
        prompt_ids, extends = self._builder.next(self._observation, step.text, step.response_ids)
        fits = len(prompt_ids) <= self._max_prompt_length
        if step.truncated:
            foreign = self._info.get("foreign_limit", False)
            self.stop = StopReason.FOREIGN_LIMIT if foreign else StopReason.TURN_LIMIT
            self._final_prompt_ids = prompt_ids if fits else None
        elif not fits:
            step.truncated = True
            self.stop = StopReason.PROMPT_TOO_LONG
        else:
            self._prompt, self._extends = prompt_ids, extends

    def fail(self, error: Exception, *, spoilt: bool = True) -> None:
        """End the episode because of an exception, of the environment or on the way to the next prompt.

        Args:
            error: It.
            spoilt: Whether the environment may be to blame; not where the reply could not be had.
        """
        self.stop, self._spoilt = StopReason.FAILED, spoilt
        self._error = error_text(error)
        self._breach = isinstance(error, ContractError)

    def trajectory(self) -> Trajectory:
        """The finished episode; masked if it failed, or if its first prompt already was too long."""
        if self.stop is None:
            raise RuntimeError("the episode is still running")
        terminated = bool(self._steps) and self._steps[-1].terminated
        success, score = verdict(self._info, terminated=terminated, total=sum(step.reward for step in self._steps))
        failed = self.stop is StopReason.FAILED
        task = self.assignment.task
        return Trajectory(
            task_id=self._info.get("task_id", "" if task is None else str(task)),
            steps=self._steps,
            stop=self.stop,
            success=success and not failed,
            score=0.0 if failed else score,
            group=self.assignment.group,
            sample=self.assignment.sample,
            env=self.assignment.env,
            final_prompt_ids=self._final_prompt_ids,
            masked=failed or not self._steps,
            error=self._error,
            breach=self._breach,
            repaired=self.env.repaired - self._repaired,
            split_tokens=0 if self._builder is None else self._builder.split_tokens,
            reward_info=self._info.get("reward_info", {}),
            info={"seed": self.assignment.seed, "protocol": self._protocol},
        )


def record_observations(env: gymnasium.Env[Any, Any]) -> None:
    """Keep what the innermost environment says, so that `state_anchor` finds it; call it before a reset.

    It goes directly around `env.unwrapped`, inside all wrappers. An environment without wrappers needs nothing.
    """
    inner = _innermost_wrapper(env)
    if inner is not None and not isinstance(inner, _Recorder):
        inner.env = _Recorder(inner.env)


class _Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps the last observation of an environment before its other wrappers make something else of it."""

    last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.last, info = self.env.reset(seed=seed, options=options)
        return self.last, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.last, *rest = self.env.step(action)
        return self.last, *rest


def state_anchor(env: gymnasium.Env[Any, Any], observation: Any, kind: AnchorKind) -> str:
    """A hash that equal states of the same task share.

    Args:
        env: The environment, after a reset or step.
        observation: What it returned, wrappers included: taken where there is no wrapper.
        kind: ``"observation"`` hashes what the environment said, before wrappers. ``"state"`` takes the environment's
            own ``env.unwrapped.state_key()`` where it has one (`AgentEnv.state_key`), else the observation.

    Returns:
        A short string, never empty.
    """
    state_key = getattr(env.unwrapped, "state_key", None)
    if kind == "state" and callable(state_key):
        try:
            return str(state_key())
        except SnapshotError:  # its author did not say what the state is
            pass
    inner = _innermost_wrapper(env)
    return digest(inner.last if isinstance(inner, _Recorder) else observation)


def _innermost_wrapper(env: gymnasium.Env[Any, Any]) -> gymnasium.Wrapper[Any, Any, Any, Any] | None:
    inner = env if isinstance(env, gymnasium.Wrapper) else None
    while inner is not None and isinstance(inner.env, gymnasium.Wrapper):
        inner = inner.env
    return inner
