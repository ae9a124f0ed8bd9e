"""From the `env` argument of a trainer to a factory of environments that speak chat messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.wrappers import TimeLimit

from agent_r1_trainer.env_ids import find_spec

__all__ = ["EnvArgument", "EnvFactory", "Recipe", "panel_ids", "turn_limit"]

EnvArgument = str | EnvSpec | Callable[..., gymnasium.Env]
Recipe = Literal["default", "native", "none"]

_NOT_TEXT = (Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Tuple)


@dataclass(frozen=True)
class EnvFactory:
    """Builds environments, each ready for a flow.

    Attributes:
        source: A registered id, an `EnvSpec`, or a function that returns a new environment at every call.
        kwargs: Arguments of the environment's constructor (or of the function).
        recipe: What is wrapped around an environment whose observations are plain text: the default recipe (an action
            format and the chat history), the native one (the history alone, a reply is a command) or nothing.
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
        if self.recipe not in ("default", "native", "none"):
            raise ValueError(f"recipe must be 'default', 'native' or 'none', got {self.recipe!r}")

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
        actions = getattr(env, "action_space", None)
        if isinstance(actions, _NOT_TEXT):
            raise TypeError(
                f"{self.name} cannot be played by a language model, whose action is a string: its action_space is "
                f"{actions}. Wrap it so that it reads text as an action and shows text as an observation"
            )
        if isinstance(env.observation_space, Text) and self.recipe != "none":
            env = _apply_recipe(env, self.recipe)
        return env

    def _build(self) -> gymnasium.Env:
        if isinstance(self.source, (str, EnvSpec)):
            if isinstance(self.source, str):
                find_spec(self.source)  # registers the ids, and has better words for one that there is not
            # The checker wraps the environment in warnings meant for its author; order enforcing stays on.
            return gymnasium.make(
                self.source, max_episode_steps=self.max_turns, disable_env_checker=True, **dict(self.kwargs)
            )
        env = self.source(**dict(self.kwargs))
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"the function passed as env must return a gymnasium.Env, got {type(env).__name__}")
        return env if self.max_turns is None else TimeLimit(env, max_episode_steps=self.max_turns)


def panel_ids(env: gymnasium.Env) -> tuple[str, ...] | None:
    """Ids of the tasks of an environment's panel, in order; None if it has no panel and only seeds tell tasks apart."""
    tasks = getattr(env.unwrapped, "tasks", None)
    ids = getattr(tasks, "ids", None)
    if ids is not None:
        return tuple(ids)
    try:
        return tuple(str(index) for index in range(len(tasks)))  # type: ignore[arg-type]
    except TypeError:
        return None


def turn_limit(env: gymnasium.Env) -> int | None:
    """Most turns of an episode that the wrappers allow; None if there is no limit."""
    limits = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def _apply_recipe(env: gymnasium.Env, recipe: Recipe) -> gymnasium.Env:
    from agent_r1_wrappers import recipes

    return recipes.default(env) if recipe == "default" else recipes.native(env)
