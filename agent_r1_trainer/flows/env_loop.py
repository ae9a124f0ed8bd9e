"""The loop between a policy and any Gymnasium environment, many episodes at a time."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium
from agent_r1_wrappers.formats.action_format import sample_replies

from agent_r1_trainer.environments.contract import CheckedEnv, close_quietly
from agent_r1_trainer.environments.factory import Panel, UnbuiltEnv, panel_of, turn_limit
from agent_r1_trainer.flows.base import AgentFlowBase, Assignment, FlowTimes
from agent_r1_trainer.flows.episode import AnchorKind, Episode
from agent_r1_trainer.generation.protocol import Generator, SamplingParams
from agent_r1_trainer.prompts import ChatRenderer, HistoryThinking, check_replies
from agent_r1_trainer.trajectory import StopReason, Trajectory

__all__ = ["AgentEnvLoop"]


class AgentEnvLoop(AgentFlowBase):
    """Runs episodes in lockstep: every live episode takes one turn, then all of them the next.

    Only live episodes generate. When one ends, the next assignment takes its environment at once, so the batch stays
    full until the assignments run out. In a mixture the episodes of all environments take their turns together, in one
    call of the generator.

    Whatever goes wrong in an episode, because its environment raises or returns what nobody can use (`CheckedEnv`),
    costs that episode: the trajectory is masked, the environment is closed and replaced by a new one. Only if the very
    first cannot be built the error is the caller's. `close` closes all environments, and `run` then builds new ones;
    at the latest they are closed when the loop is forgotten.

    Args:
        make_env: Builds one environment; its observations are text, lists of messages or lists of token ids. A mapping
            holds one function for each name that `Assignment.env` may have.
        tokenizer: Renders prompts and decodes replies.
        max_prompt_length: Longest prompt, in tokens. An episode whose next prompt is longer stops.
        concurrency: Most episodes at a time; None runs all of them at once.
        history_thinking: Whether thinking in earlier replies stays in the prompt; see `PromptBuilder`.
        chat_template_kwargs: Passed to the chat template, beneath those of the environment's reset info.
        step_anchor: What every step records as its state: see `state_anchor`. None records nothing.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env] | Mapping[str, Callable[[], gymnasium.Env]],
        tokenizer: Any,
        *,
        max_prompt_length: int,
        concurrency: int | None = None,
        history_thinking: HistoryThinking = "keep",
        chat_template_kwargs: dict[str, Any] | None = None,
        step_anchor: AnchorKind | None = None,
    ) -> None:
        if concurrency is not None and concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        self.times = FlowTimes()
        self._make_env = dict(make_env) if isinstance(make_env, Mapping) else {"": make_env}
        self._tokenizer = tokenizer
        self._concurrency = concurrency
        self._episode_kwargs: dict[str, Any] = {
            "max_prompt_length": max_prompt_length,
            "history_thinking": history_thinking,
            "chat_template_kwargs": chat_template_kwargs,
            "step_anchor": step_anchor,
        }
        self._open: list[CheckedEnv] = []  # built and not closed; some of them idle
        self._idle: dict[str, list[CheckedEnv]] = {name: [] for name in self._make_env}
        self._known: dict[str, tuple[Panel | None, int | None]] = {}
        weakref.finalize(self, _close_all, self._open)
        self._replies: dict[str, str] = {}
        """What the action formats of each environment that was built once write."""

    @property
    def num_tasks(self) -> int | None:
        """Size of the environment's panel, None if there are several; see `AgentFlowBase.num_tasks`."""
        sizes = list(self.panels.values())
        return sizes[0] if len(sizes) == 1 else None

    @property
    def panels(self) -> Mapping[str, int | None]:
        """Size of each environment's panel; see `AgentFlowBase.panels`."""
        return {name: None if panel is None else len(panel) for name, panel in self.tasks.items()}

    @property
    def tasks(self) -> Mapping[str, Panel | None]:
        """The panel of each environment; see `AgentFlowBase.tasks`."""
        return {name: self._facts(name)[0] for name in self._idle}

    @property
    def turn_limits(self) -> Mapping[str, int | None]:
        """The limit of each environment's wrappers; see `AgentFlowBase.turn_limits`."""
        return {name: self._facts(name)[1] for name in self._idle}

    def check(self, sampling: SamplingParams) -> None:
        """Make sure of each environment that the tokenizer can write the replies which its action format reads.

        Raises:
            ValueError: It cannot; the message has a reply and what became of it.
        """
        template = self._episode_kwargs["chat_template_kwargs"]
        for name in self._idle:
            env = self._sample(name)
            renderer = ChatRenderer(self._tokenizer, template, own=self._replies[name])
            check_replies(env, self._tokenizer, sampling.stop_token_ids, renderer)

    def run(
        self,
        assignments: Sequence[Assignment],
        generator: Generator,
        sampling: SamplingParams,
        *,
        policy_version: int = 0,
    ) -> list[Trajectory]:
        """Run every assignment once; see `AgentFlowBase.run`.

        Raises:
            ValueError: An assignment names an environment that the loop does not have.
        """
        for name in {assignment.env for assignment in assignments}.difference(self._make_env):
            raise ValueError(
                f"there is no environment {name!r} to run; there are {', '.join(map(repr, self._make_env))}"
            )
        try:
            return self._run(assignments, generator, sampling, policy_version)
        except BaseException:  # of the generator, or Ctrl-C: the episodes that were under way are given up
            idle = {id(env) for envs in self._idle.values() for env in envs}
            self._discard([env for env in self._open if id(env) not in idle])
            raise

    def _run(
        self, assignments: Sequence[Assignment], generator: Generator, sampling: SamplingParams, policy_version: int
    ) -> list[Trajectory]:
        self.times = FlowTimes()
        limit = len(assignments) if self._concurrency is None else self._concurrency
        waiting = deque(enumerate(assignments))
        live: dict[int, Episode] = {}
        done: dict[int, Trajectory] = {}
        while waiting or live:
            started = time.perf_counter()
            while waiting and len(live) < limit:
                index, assignment = waiting.popleft()
                live[index] = self._start(assignment, sampling, policy_version)
                self._retire(live, done)
            self.times.environment += time.perf_counter() - started
            if not live:
                continue
            started = time.perf_counter()
            episodes = list(live.values())
            each = [episode.sampling(sampling) for episode in episodes]
            replies = generator.generate(
                [episode.prompt_ids for episode in episodes],
                each[0] if len(set(each)) == 1 else each,
                [episode.assignment.reply_seed(episode.turn) for episode in episodes],
            )
            self.times.generation += time.perf_counter() - started
            started = time.perf_counter()
            for episode, reply in zip(episodes, replies, strict=True):
                if _guard(episode, partial(episode.step, reply)):
                    _guard(episode, episode.make_next_prompt)
            self._retire(live, done)
            self.times.environment += time.perf_counter() - started
        return [done[index] for index in range(len(assignments))]

    def close(self) -> None:
        """Close the environments; `run` builds new ones."""
        for idle in self._idle.values():
            idle.clear()
        self._discard(list(self._open))

    def _start(self, assignment: Assignment, sampling: SamplingParams, policy_version: int) -> Episode:
        idle = self._idle[assignment.env]
        env = idle.pop() if idle else self._build(assignment.env)
        episode = Episode(
            env,
            assignment,
            self._tokenizer,
            stop_ids=sampling.stop_token_ids,
            own=self._replies[assignment.env],
            policy_version=policy_version,
            **self._episode_kwargs,
        )
        if _guard(episode, episode.reset):
            _guard(episode, episode.make_first_prompt)
        return episode

    def _facts(self, name: str) -> tuple[Panel | None, int | None]:
        """Panel and turn limit of an environment, known also once it is closed."""
        if name not in self._known:
            env = self._sample(name)
            self._known[name] = panel_of(env), turn_limit(env)
        return self._known[name]

    def _sample(self, name: str) -> CheckedEnv:
        """An idle environment of that name, to be looked at only."""
        if not self._idle[name]:
            self._idle[name].append(self._build(name))
        return self._idle[name][0]

    def _build(self, name: str) -> CheckedEnv:
        """Build an environment. Where the first could be built, one that cannot is a failure like any other."""
        try:
            env = CheckedEnv(self._make_env[name](), vocabulary=len(self._tokenizer))
        except Exception as error:
            if name not in self._replies:
                raise
            env = CheckedEnv(UnbuiltEnv(error))
        if name not in self._replies:
            self._replies[name] = "\n".join(sample_replies(env, "So.").values())
        self._open.append(env)
        return env

    def _discard(self, envs: Iterable[CheckedEnv]) -> None:
        for env in envs:
            self._open.remove(env)
            close_quietly(env)

    def _retire(self, live: dict[int, Episode], done: dict[int, Trajectory]) -> None:
        """Move the episodes that ended from `live` to `done` and free their environments."""
        for index in [index for index, episode in live.items() if episode.stop is not None]:
            episode = live.pop(index)
            done[index] = trajectory = episode.trajectory()
            if trajectory.stop is StopReason.FAILED:
                self._discard([episode.env])
            else:
                self._idle[episode.assignment.env].append(episode.env)


def _guard(episode: Episode, act: Callable[[], None]) -> bool:
    """Run a part of an episode; an exception ends this episode only, and is named. Returns whether it went well.

    It may be a fault of this package as well as one of the environment or the template. Then too the rest of the batch
    is worth keeping, and where it is no accident `max_masked_ratio` stops the run.
    """
    try:
        act()
    except Exception as error:
        episode.fail(error)
        return False
    return True


def _close_all(envs: list[CheckedEnv]) -> None:
    while envs:
        close_quietly(envs.pop())
