"""What wrappers ask of the stack that they are in: its order, its turn limit, and state for snapshots.

The order is checked by the spaces of the env below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
from gymnasium.spaces import Text
from gymnasium.wrappers import TimeLimit

from agent_r1_envs.spaces import Messages

ORDER = "env, TimeLimit, action format, rewards, AppendHistory, context operations, recording"


class WrapperOrderError(TypeError):
    """A wrapper was put where it cannot work; the message says where it belongs."""

    def __init__(self, wrapper: object, problem: str, advice: str) -> None:
        super().__init__(f"{type(wrapper).__name__} {problem}. {advice} The order, inside out: {ORDER}.")


def require_text(wrapper: gymnasium.Wrapper, env: gymnasium.Env) -> Text:
    """Return the text space that ``env`` observes.

    Raises:
        WrapperOrderError: If observations or actions of ``env`` are not text.
    """
    name = type(env).__name__
    if isinstance(env.observation_space, Messages):
        raise WrapperOrderError(
            wrapper,
            f"works on text, but {name} below it emits chat messages",
            "Put it below AppendHistory.",
        )
    for role, space in (("observations", env.observation_space), ("actions", env.action_space)):
        if not isinstance(space, Text):
            raise WrapperOrderError(
                wrapper,
                f"needs an env with text {role}, but those of {name} are in {space}",
                "Use an env with FreeText or gymnasium.spaces.Text on both sides.",
            )
    assert isinstance(env.observation_space, Text)
    return env.observation_space


def require_messages(wrapper: gymnasium.Wrapper, env: gymnasium.Env) -> Messages:
    """Return the space of chat messages that ``env`` observes.

    Raises:
        WrapperOrderError: If observations of ``env`` are not chat messages.
    """
    if not isinstance(env.observation_space, Messages):
        raise WrapperOrderError(
            wrapper,
            f"works on chat messages, but observations of {type(env).__name__} below it are in {env.observation_space}",
            "Put AppendHistory below it.",
        )
    return env.observation_space


def layers(env: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """Yield the env and everything that it wraps, from the outside in."""
    while True:
        yield env
        if not isinstance(env, gymnasium.Wrapper):
            return
        env = env.env


def turn_limit(env: gymnasium.Env) -> int | None:
    """Return the turns that the tightest ``TimeLimit`` inside ``env`` allows, or None without one."""
    limits = [int(layer._max_episode_steps) for layer in layers(env) if isinstance(layer, TimeLimit)]
    return min(limits, default=None)


class WrapperState:
    """Base of frozen state objects; a deep copy is the object itself.

    What they hold is never changed, so snapshots cost no copying, and messages keep the identity by which a prompt is
    seen to extend the one before.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> WrapperState:
        return self
