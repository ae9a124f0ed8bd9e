"""The base class of every environment: a text agent that solves one task of a panel an episode.

A subclass says what a task is, what an action does and how the benchmark scores; :class:`AgentEnv` does what all of
them have in common, so that a consumer can rely on it everywhere: choosing tasks, counting turns, the keys of ``info``,
refusing what is no action, keeping observations valid, enforcing resets, and saving and restoring a running episode.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Self, TypeVar

import gymnasium
import numpy as np
from gymnasium import logger
from gymnasium.envs.registration import EnvSpec

from agent_r1_envs.actions import MalformedAction
from agent_r1_envs.arguments import argument_names, passes_on, unknown_argument
from agent_r1_envs.digest import digest
from agent_r1_envs.errors import ResetNeeded, SnapshotError
from agent_r1_envs.sampling import Order, TaskDraws, task_position
from agent_r1_envs.services.secrecy import without_secrets
from agent_r1_envs.spaces import FreeText
from agent_r1_envs.specs import SpecArguments
from agent_r1_envs.tasks import TaskSet
from agent_r1_envs.text import clean, is_unicode

__all__ = ["AgentEnv", "Outcome", "Score"]

TaskT = TypeVar("TaskT")

_WITHOUT_WORLD = (
    "{name} has no {method}(), so its episodes can be neither saved nor restored. Write both: `def _get_world(self)` "
    "returns what the episode has changed as picklable data, and `def _set_world(self, world)` puts it back"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one action did.

    Attributes:
        observation: What the env says in answer.
        reward: Reward of this turn.
        terminated: Whether the task has ended by its own rules.
        invalid: Why the action was no valid one; None for a valid action. An invalid action changes nothing.
        info: Further keys of the step's ``info``, such as ``"calls"`` or ``"admissible_actions"``.
    """

    observation: str
    reward: float = 0.0
    terminated: bool = False
    invalid: str | None = None
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Score:
    """What the benchmark would give if the episode stopped now.

    Attributes:
        success: Whether the task counts as solved.
        score: The benchmark's own metric, from 0 to 1.
        reward_info: The components of the score, by name.
    """

    success: bool
    score: float
    reward_info: dict[str, float]


class AgentEnv(gymnasium.Env[str, str], Generic[TaskT]):
    """A Gymnasium env whose observations and actions are text.

    * An observation is what the env says this turn, at most ``max_length`` characters. History is the wrappers' job.
    * ``reset(options={"task": ...})`` chooses a task by position or id and draws no random number; otherwise ``order``
      and ``shard`` decide. A seed changes which tasks are sampled, never the panel or its order.
    * ``terminated`` means that the task ended by its own rules; ``truncated`` is always False here, it belongs to
      ``TimeLimit``. A ``step`` after the end raises ``ResetNeeded``.
    * A bad action never raises. It counts as a turn, leaves the world as it was, and ``info["invalid_action"]`` says
      why.
    * Every ``info`` holds ``task_id``, ``split``, ``dataset``, ``instruction`` (str), ``turn`` (int), ``success``
      (bool), ``score`` (float) and ``reward_info`` (dict of floats); that of ``reset`` also ``protocol``.

    A subclass implements :meth:`_begin`, :meth:`_act`, :meth:`_score`, :meth:`_instruction`, :meth:`_get_world` and
    :meth:`_set_world`; the other hooks have defaults.

    Args:
        tasks: The panel that episodes are taken from.
        order: ``"random"`` draws with replacement, ``"shuffled"`` passes through the panel in a new random order each
            time, ``"sequential"`` in its own order. ``reset(seed=...)`` starts the pass again.
        shard: ``(i, n)`` restricts the env to the tasks at positions ``i, i + n, i + 2n, ...`` of the panel.
        max_length: The most characters of an observation.
        render_mode: None or ``"ansi"``.
        **unknown: Refused; the error names the argument that may have been meant.

    Raises:
        TypeError: If there is no such argument.
        ValueError: If an argument is out of its range.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}
    max_action_length: int = 65_536
    """Longer actions are refused unread."""

    _spec: EnvSpec | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse an argument that the constructor does not have, with the one that may have been meant."""
        if not passes_on(cls):
            _refuse_unknown(cls, [name for name in kwargs if name not in argument_names(cls)])
        return super().__new__(cls)

    def __init__(
        self,
        tasks: TaskSet[TaskT],
        *,
        order: Order = "random",
        shard: Sequence[int] = (0, 1),
        max_length: int = 32_768,
        render_mode: Literal["ansi"] | None = None,
        **unknown: Any,
    ) -> None:
        _refuse_unknown(type(self), unknown)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode is None or one of {self.metadata['render_modes']}, got {render_mode!r}")
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        self.tasks = tasks
        self.render_mode = render_mode
        self.observation_space = FreeText(max_length)
        self.action_space = FreeText(self.max_action_length)
        self._max_length = max_length
        self._sampler = TaskDraws(len(tasks), order=order, shard=shard)
        self._position = 0
        self._turn = 0
        self._begun = False  # whether there is an episode, running or ended
        self._running = False
        self.last_observation = ""
        """What the env said last, for :meth:`render` and for people."""

    # Hooks of a subclass

    def _begin(self) -> str:
        """Set the world up for :attr:`task` and return the first observation."""
        raise NotImplementedError

    def _act(self, action: str) -> Outcome:
        """Carry out one action; for a bad one leave the world alone and give the reason in ``Outcome.invalid``."""
        raise NotImplementedError

    def _score(self) -> Score:
        """Return what the benchmark would give if the episode stopped now."""
        raise NotImplementedError

    def _instruction(self) -> str:
        """Return what the agent is asked to do in this episode."""
        raise NotImplementedError

    def _get_world(self) -> Any:
        """Return the state of the world as picklable data, from which :meth:`_set_world` can restore it.

        Raises:
            SnapshotError: A subclass that does without cannot be saved; the message says what to write.
        """
        raise SnapshotError(_WITHOUT_WORLD.format(name=type(self).__name__, method="_get_world"))

    def _set_world(self, world: Any) -> None:
        """Put the world of :attr:`task` into a state that :meth:`_get_world` returned; ``world`` may be kept."""
        raise NotImplementedError

    def _state_facts(self) -> Any:
        """Return what tells states of the world apart, as plain data: without counters and without the way there.

        What is returned must be the same for two orders of actions after which the same actions do the same.
        """
        return self._get_world()

    def _refuse(self, reason: str) -> Outcome:
        """Answer something that is no action at all; override to keep a benchmark's own words."""
        return Outcome(f"Invalid action: {reason}", invalid=reason)

    def _presentable(self, text: str) -> str:
        """Make an observation fit the space: valid UTF-8, not too long, and by default without control characters."""
        return clean(text, self._max_length)

    def _protocol(self) -> dict[str, Any]:
        """Return what makes results comparable: rules, reward, catalogue; JSON data without None."""
        return {}

    def _reset_info(self) -> dict[str, Any]:
        """Return further keys of reset's ``info``, such as ``"tools"`` or ``"admissible_actions"``."""
        return {}

    def expert_action(self) -> str | None:
        """Return a command on an optimal, or known good, path from here, or None if there is none."""
        return None

    # Gymnasium's interface

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; bad options raise before anything changes.

        Args:
            seed: Seeds the choice of tasks and starts the pass through them again.
            options: ``{"task": position}`` or ``{"task": id}`` chooses the task.

        Returns:
            The first observation, and an ``info`` that also holds ``"protocol"``.

        Raises:
            TypeError: If the task is neither an int nor a string.
            IndexError: If the position is not in the split.
            KeyError: If no task has this id.
            ValueError: If there is an option that the env does not know.
        """
        chosen = task_position(self.tasks, options)
        super().reset(seed=seed)
        if seed is not None:
            self._sampler.restart()
        self._begun = self._running = False  # a failure in _begin must not leave half an episode
        self._position = self._sampler.draw(lambda: self.np_random) if chosen is None else chosen
        self._turn = 0
        self.last_observation = self._presentable(self._begin())
        self._begun = self._running = True
        info = self._info(self._reset_info())
        info["protocol"] = self._full_protocol()
        return self.last_observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carry out one action.

        Returns:
            Observation, reward, terminated, truncated (always False) and info.

        Raises:
            ResetNeeded: If no episode is running.
        """
        if not self._running:
            raise ResetNeeded("no episode is running: call reset() before the first step and after the end")
        self._running = False  # an exception in a tool leaves the world in doubt, so the episode ends with it
        self._turn += 1
        reason = self._why_refused(action)
        outcome = self._act(str(action)) if reason is None else self._refuse(reason)
        self.last_observation = self._presentable(outcome.observation)
        self._running = not outcome.terminated
        info = self._info(outcome.info)
        if outcome.invalid is not None:
            info["invalid_action"] = clean(outcome.invalid)
        return self.last_observation, float(outcome.reward), bool(outcome.terminated), False, info

    def render(self) -> str | None:
        """Return what the env said last, headed by task and turn, or None without a render mode."""
        if self.render_mode is None:
            logger.warn("render() needs a render mode: gymnasium.make(..., render_mode='ansi')")
            return None
        return f"[{self.task_id}, turn {self._turn}]\n{self.last_observation}"

    # State

    @property
    def task(self) -> TaskT:
        """The task of the current episode."""
        return self.tasks[self._position]

    @property
    def task_id(self) -> str:
        """Id of the task of the current episode."""
        return self.tasks.ids[self._position]

    @property
    def turn(self) -> int:
        """Calls of :meth:`step` in this episode, invalid actions included."""
        return self._turn

    @property
    def shard(self) -> tuple[int, int]:
        """The part ``(i, n)`` of the panel that episodes are taken from.

        It can be set, and takes effect at the next reset. ``make_vec`` gives the same arguments to every sub-env, so an
        evaluation that sees each task once sets the shards afterwards, in any vectorisation mode::

            envs = gymnasium.make_vec("AgentR1/HotpotQA-v0", num_envs=n, order="sequential")
            envs.set_attr("shard", [(i, n) for i in range(n)])
        """
        return self._sampler.shard

    @shard.setter
    def shard(self, shard: Sequence[int]) -> None:
        self._sampler = TaskDraws(len(self.tasks), order=self._sampler.order, shard=shard)

    def get_state(self) -> dict[str, Any]:
        """Return the whole state of the episode as picklable data that later steps do not change.

        An invalid action changes nothing in it but ``"turn"``.

        Raises:
            ResetNeeded: If no episode has begun.
            SnapshotError: If the class has no :meth:`_get_world` or no :meth:`_set_world`; the message says what to
                write.
        """
        if not self._begun:
            raise ResetNeeded("there is no state before the first reset()")
        if type(self)._set_world is AgentEnv._set_world:
            raise SnapshotError(_WITHOUT_WORLD.format(name=type(self).__name__, method="_set_world"))
        return {
            "panel_hash": self.tasks.content_hash,
            "task_id": self.task_id,
            "turn": self._turn,
            "running": self._running,
            "rng": None if self._np_random is None else copy.deepcopy(self._np_random.bit_generator.state),
            "seed": self._np_random_seed,
            "sampler": self._sampler.get_state(),
            "world": copy.deepcopy(self._get_world()),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to a state that :meth:`get_state` returned, here or in another process.

        Raises:
            SnapshotError: If the state belongs to another panel.
        """
        if state["panel_hash"] != self.tasks.content_hash:
            raise SnapshotError(
                f"the state belongs to a panel with hash {state['panel_hash'][:12]}, "
                f"this env has {self.tasks!r} with hash {self.tasks.content_hash[:12]}"
            )
        self._position = self.tasks.index_of(state["task_id"])
        self._turn = state["turn"]
        self._np_random = None if state["rng"] is None else _generator(state["rng"])
        self._np_random_seed = state["seed"]
        self._sampler = TaskDraws.from_state(len(self.tasks), state["sampler"])
        self._set_world(copy.deepcopy(state["world"]))
        self._begun = True
        self._running = state["running"]

    def state_key(self) -> str:
        """Return a hash that equal states of the same task share, whatever actions led there and in how many turns.

        It is the same in every process. An invalid action does not change it.

        Raises:
            ResetNeeded: If no episode has begun.
        """
        if not self._begun:
            raise ResetNeeded("there is no state before the first reset()")
        return digest([self.task_id, self._running, self._state_facts()])

    @property
    def spec(self) -> EnvSpec | None:
        """The spec that ``gymnasium.make`` recorded; live objects among its arguments are never copied."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            spec.kwargs = SpecArguments(spec.kwargs)
        self._spec = spec

    # Parts of the contract

    def _why_refused(self, action: object) -> str | None:
        """Return why ``action`` is not even worth showing to the world, or None."""
        if isinstance(action, MalformedAction):
            return action.reason
        if not isinstance(action, str):
            return f"an action is a string, got {type(action).__name__}"
        if len(action) > self.max_action_length:
            return f"an action has at most {self.max_action_length} characters, got {len(action)}"
        if not is_unicode(action):
            return "the action is not valid Unicode: it holds half of a surrogate pair"
        return None

    def _info(self, extra: dict[str, Any]) -> dict[str, Any]:
        score = self._score()
        return {
            "task_id": self.task_id,
            "split": self.tasks.split,
            "dataset": self.tasks.dataset,
            "instruction": clean(self._instruction()),
            "turn": self._turn,
            "success": bool(score.success),
            "score": float(score.score),
            "reward_info": {name: float(value) for name, value in score.reward_info.items()},
            **extra,
        }

    def _full_protocol(self) -> dict[str, Any]:
        """The subclass's protocol and what is the same for all: the panel, and the turn limit of a registered id.

        An env cannot see the wrappers around it: after ``gymnasium.make(..., max_episode_steps=n)`` the limit in force
        is ``env.spec.max_episode_steps``.
        """
        protocol = {"panel_hash": self.tasks.content_hash, "goals": len(self.tasks)}
        registered = None if self.spec is None else gymnasium.registry.get(self.spec.id)
        if registered is not None and registered.max_episode_steps is not None:
            protocol["turns"] = registered.max_episode_steps
        return {**protocol, **without_secrets(copy.deepcopy(self._protocol()))}


def _refuse_unknown(cls: type, names: Iterable[str]) -> None:
    for name in names:
        known = [other for other in argument_names(cls) if other not in ("tasks", "tools")]  # those of a subclass only
        raise TypeError(unknown_argument(f"{cls.__name__}()", name, known))


def _generator(state: dict[str, Any]) -> np.random.Generator:
    bit_generator = getattr(np.random, state["bit_generator"])()
    bit_generator.state = state
    return np.random.Generator(bit_generator)
