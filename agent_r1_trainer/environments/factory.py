"""From the `env` argument of a trainer to a factory of environments that speak chat messages.

An id that is not registered is refused with the nearest ones that are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, get_args

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.wrappers import TimeLimit

from agent_r1_envs.arguments import explain_unknown
from agent_r1_envs.names import nearest
from agent_r1_envs.tasks import TaskSet
from agent_r1_envs.text import mend
from agent_r1_trainer.environments.contract import CheckedEnv, close_quietly

__all__ = [
    "RECIPES",
    "EnvArgument",
    "EnvFactory",
    "EnvWorkers",
    "Panel",
    "Recipe",
    "UnbuiltEnv",
    "find_spec",
    "make_env",
    "panel_of",
    "turn_limit",
]

EnvArgument = str | EnvSpec | Callable[..., gymnasium.Env]
Recipe = Literal["default", "tools", "native", "none"]
RECIPES: tuple[str, ...] = get_args(Recipe)
EnvWorkers = Literal["inline", "threads", "processes"]
"""Where environments work: in the thread that runs the loop, in threads or in processes of their own."""
_NOT_TEXT = (Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Tuple)


@dataclass(frozen=True)
class EnvFactory:
    """Builds environments, each ready for a flow.

    Attributes:
        source: A registered id, an `EnvSpec`, or a function that returns a new environment at every call.
        kwargs: Arguments of the environment's constructor (or of the function).
        recipe: What is wrapped around an environment whose observations are plain text: the default recipe (an action
            format and the chat history), that of tools (calls, whose schemas go to the chat template or the endpoint),
            the native one (the history alone, a reply is a command) or nothing.
            Environments that emit messages or token ids are left as they are.
        max_turns: Most turns of an episode; None leaves the limit to the environment's own spec.

    Raises:
        TypeError: At construction, if `source` is a live environment or nothing that can be built.
    """

    source: EnvArgument
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    recipe: Recipe = "default"
    max_turns: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.source, gymnasium.Env):
            raise TypeError(
                "env must be an id, an EnvSpec or a function that builds an environment, because a rollout runs many "
                f"copies; got the live environment {self.source}. Pass `lambda: make_it()` instead"
            )
        if not isinstance(self.source, (str, EnvSpec)) and not callable(self.source):
            raise TypeError(f"env must be an id, an EnvSpec or a function, got {type(self.source).__name__}")
        if self.recipe not in RECIPES:
            raise ValueError(f"recipe must be {' or '.join(map(repr, RECIPES))}, got {self.recipe!r}")

    @property
    def name(self) -> str:
        """A short name for logs and model cards."""
        if isinstance(self.source, str):
            return self.source
        if isinstance(self.source, EnvSpec):
            return self.source.id
        return getattr(self.source, "__name__", type(self.source).__name__)

    def __call__(self) -> gymnasium.Env:
        """Build one environment.

        Raises:
            TypeError: It does not take text as its action.
        """
        env = self._build()
        try:
            return self._made_ready(env)
        except Exception:
            close_quietly(env)
            raise

    def _made_ready(self, env: gymnasium.Env) -> gymnasium.Env:
        actions = getattr(env, "action_space", None)
        if isinstance(actions, _NOT_TEXT):
            raise TypeError(
                f"{self.name} cannot be played by a language model, whose action is a string: its action_space is "
                f"{actions}. Wrap it so that it reads text as an action and shows text as an observation"
            )
        if isinstance(env.observation_space, Text) and self.recipe != "none":
            # Checked beneath the wrappers: they build on what the environment says, and would fail in words of theirs.
            env = _apply_recipe(CheckedEnv(env, text_only=True), self.recipe)
        return env

    def _build(self) -> gymnasium.Env:
        if isinstance(self.source, (str, EnvSpec)):
            return make_env(self.source, self.kwargs, self.max_turns)
        try:
            env = self.source(**dict(self.kwargs))
        except TypeError as error:
            if explained := explain_unknown(error, self.source, self.kwargs):
                raise explained from error
            raise
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"the function passed as env must return a gymnasium.Env, got {type(env).__name__}")
        return env if self.max_turns is None else TimeLimit(env, max_episode_steps=self.max_turns)


def make_env(source: str | EnvSpec, kwargs: Mapping[str, Any], max_turns: int | None = None) -> gymnasium.Env:
    """Build a registered environment.

    Args:
        source: Its id or spec.
        kwargs: Arguments of its constructor.
        max_turns: Most turns of an episode; None leaves the limit to the spec.

    Raises:
        TypeError: There is no such argument; the message names the nearest one.
        gymnasium.error.Error: There is no such environment; the message names near ones.
    """
    spec = find_spec(source) if isinstance(source, str) else source  # registers the ids as well
    try:
        # The checker wraps the environment in warnings meant for its author; order enforcing stays on.
        return gymnasium.make(source, max_episode_steps=max_turns, disable_env_checker=True, **dict(kwargs))
    except TypeError as error:
        entry = spec.entry_point
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
        if creator is not None and (explained := explain_unknown(error, creator, kwargs)):
            raise explained from error
        raise


def _apply_recipe(env: gymnasium.Env, recipe: Recipe) -> gymnasium.Env:
    from agent_r1_wrappers import recipes

    stacks = {"default": recipes.default, "tools": recipes.tools, "native": recipes.native}
    return stacks[recipe](env)


class UnbuiltEnv(gymnasium.Env[Any, Any]):
    """Stands for an environment whose construction failed, and fails in its stead."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Raise the error again."""
        raise self._error


class Panel:
    """The tasks of an environment, as far as they have to be known outside of it.

    Of a panel nothing is needed but a length. `ids`, `task_types`, `content_hash`, `dataset` and `split`, as a
    `TaskSet` has them, are taken where they are.

    Args:
        tasks: `env.unwrapped.tasks`.

    Raises:
        TypeError: It has no length.

    Attributes:
        ids: Of the tasks, in their order; their positions where they have none.
        types: Type of each task; None where tasks have none.
        dataset: Where the tasks are from, empty if unknown.
        split: Name of the split, empty if unknown.
    """

    def __init__(self, tasks: Any) -> None:
        self._tasks, self._count = tasks, len(tasks)
        ids = _column(tasks, "ids")
        self.ids: Sequence[str] = tuple(map(str, range(self._count))) if ids is None else ids
        self.types = _column(tasks, "task_types")
        self.dataset, self.split = str(getattr(tasks, "dataset", "")), str(getattr(tasks, "split", ""))

    def __len__(self) -> int:
        return self._count

    @property
    def content_hash(self) -> str:
        """Of the tasks; empty where the panel has none."""
        try:
            return str(getattr(self._tasks, "content_hash", ""))
        except TypeError:  # a `TaskSet` of objects that cannot be written as JSON
            return ""

    @property
    def digest(self) -> str:
        """What tells the panel from others: its hash, or else that of its ids."""
        return self.content_hash or hashlib.sha256("\n".join(self.ids).encode()).hexdigest()


def panel_of(env: gymnasium.Env) -> Panel | None:
    """The panel of an environment; None if it has none and only seeds tell tasks apart."""
    try:
        return Panel(getattr(env.unwrapped, "tasks", None))
    except TypeError:
        return None


def _column(tasks: Any, name: str) -> Sequence[str] | None:
    """What a panel has for each of its tasks, as text; None where it has nothing of the kind.

    Panels of other makers may have numbers there, None in between, a method of that name, or another count.
    """
    values = getattr(tasks, name, None)
    if isinstance(tasks, TaskSet):  # of text, and not always held whole
        return values
    try:
        found = tuple("" if value is None else mend(str(value)) for value in values)  # type: ignore[union-attr]
    except TypeError:
        return None
    return found if len(found) == len(tasks) else None


def turn_limit(env: gymnasium.Env) -> int | None:
    """Most turns of an episode that the wrappers allow; None if there is no limit."""
    limits = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def find_spec(env_id: str) -> EnvSpec:
    """Return the spec of a registered environment.

    Args:
        env_id: An id, or ``"module:id"`` with the module that registers it.

    Raises:
        ImportError: The module cannot be imported.
        gymnasium.error.Error: There is no such environment; the message names near ones.
    """
    import agent_r1_wrappers  # noqa: F401  (registers the ids of environments and recipes)

    module, _, name = env_id.rpartition(":")
    if module:
        import_module(module)
    try:
        return gymnasium.spec(name)
    except gymnasium.error.Error as error:
        near = [] if "Did you mean" in str(error) else _near(name)
        if not near:
            raise
        raise type(error)(
            f"{str(error).rstrip('.')}. Did you mean: {', '.join(f'`{other}`' for other in near)}?"
        ) from None


def _near(name: str) -> list[str]:
    # Gymnasium compares within a namespace only, so a forgotten one leaves it without a suggestion. Ids with one first.
    ids = sorted(gymnasium.registry, key=lambda other: "/" not in other)
    names = {other: other.rpartition("/")[2].rpartition("-v")[0] for other in ids}
    return nearest(name.rpartition("/")[2], names)
