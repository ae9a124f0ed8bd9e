"""Save and restore a running episode, through the whole stack of wrappers.

    saved = snapshot(env)
    env.step("search[a]")
    restore(env, saved)  # as if nothing had happened

A snapshot is data: it can be pickled and restored into another env of the same make, in another process as well, so a
tree search need not replay episodes from their reset.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit

from agent_r1_envs.core import AgentEnv
from agent_r1_envs.errors import SnapshotError

__all__ = ["Snapshot", "restore", "snapshot"]

# The state of Gymnasium's own wrappers. `episode_start_time` is handled apart: the clock means nothing elsewhere.
_KNOWN: dict[type[gymnasium.Wrapper], tuple[str, ...]] = {
    TimeLimit: ("_elapsed_steps",),
    OrderEnforcing: ("_has_reset",),
    PassiveEnvChecker: (
        "checked_reset",
        "checked_step",
        "checked_render",
        "close_called",
        "checked_data_reuse",
        "_previous_data",
    ),
    RecordEpisodeStatistics: (
        "episode_count",
        "episode_returns",
        "episode_lengths",
        "time_queue",
        "return_queue",
        "length_queue",
    ),
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of an env and its wrappers.

    Attributes:
        state: State of the env itself, with the panel's hash, the task, the turn and the random generator.
        observation: What the env said last.
        wrappers: The state of each wrapper, from the outermost in; None for one without a state.
        layers: The classes of the stack, the env's own last.
    """

    state: dict[str, Any]
    observation: str
    wrappers: tuple[Any, ...]
    layers: tuple[str, ...]


def snapshot(env: gymnasium.Env[Any, Any]) -> Snapshot:
    """Save the episode that is running in ``env``.

    Args:
        env: An :class:`~agent_r1_envs.core.AgentEnv` in any number of wrappers. A wrapper of one's own takes part by
            ``get_wrapper_state()`` and ``set_wrapper_state(state)``, or says that it has none by ``stateless = True``.

    Raises:
        SnapshotError: If the state of some wrapper is unknown; it is named.
        ResetNeeded: If no episode has begun.
    """
    wrappers, base = _layers(env)
    states = tuple(_get_state(wrapper) for wrapper in wrappers)
    return Snapshot(base.get_state(), base.last_observation, states, _names(wrappers, base))


def restore(env: gymnasium.Env[Any, Any], saved: Snapshot) -> None:
    """Go on from ``saved`` in ``env``, which need not be the env that it was taken of, nor have been reset.

    Args:
        env: An env with the same panel and the same wrappers.
        saved: What :func:`snapshot` returned; it can be restored any number of times.

    Raises:
        SnapshotError: If the env has another panel or other wrappers; then nothing has changed.
    """
    wrappers, base = _layers(env)
    layers = _names(wrappers, base)
    if layers != saved.layers:
        raise SnapshotError(
            f"the snapshot was taken of {' around '.join(saved.layers)}, not of {' around '.join(layers)}"
        )
    base.set_state(saved.state)
    base.last_observation = saved.observation
    for wrapper, state in zip(wrappers, saved.wrappers, strict=True):
        _set_state(wrapper, copy.deepcopy(state))


def _layers(env: gymnasium.Env[Any, Any]) -> tuple[list[gymnasium.Wrapper], AgentEnv[Any]]:
    wrappers = list(_unwrap(env))
    base = env.unwrapped
    if not isinstance(base, AgentEnv):
        raise SnapshotError(f"snapshots are of an AgentEnv, not of {type(base).__name__}")
    for wrapper in wrappers:
        if type(wrapper) not in _KNOWN and not _takes_part(wrapper) and not _is_stateless(wrapper):
            raise SnapshotError(
                f"the state of the wrapper {_name(wrapper)} is unknown: give it get_wrapper_state() and "
                "set_wrapper_state(state), or the class attribute stateless = True"
            )
    return wrappers, base


def _unwrap(env: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Wrapper]:
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env


def _name(env: gymnasium.Env[Any, Any]) -> str:
    return f"{type(env).__module__}.{type(env).__qualname__}"


def _names(wrappers: list[gymnasium.Wrapper], base: AgentEnv[Any]) -> tuple[str, ...]:
    return tuple(map(_name, [*wrappers, base]))


def _takes_part(wrapper: gymnasium.Wrapper) -> bool:
    return hasattr(type(wrapper), "get_wrapper_state") and hasattr(type(wrapper), "set_wrapper_state")


def _is_stateless(wrapper: gymnasium.Wrapper) -> bool:
    return getattr(type(wrapper), "stateless", False) is True


def _get_state(wrapper: gymnasium.Wrapper) -> Any:
    if _takes_part(wrapper):
        return copy.deepcopy(wrapper.get_wrapper_state())  # type: ignore[attr-defined]
    if _is_stateless(wrapper):
        return None
    # Which attributes there are depends on the version of Gymnasium.
    state = {name: copy.deepcopy(value) for name, value in vars(wrapper).items() if name in _KNOWN[type(wrapper)]}
    if isinstance(wrapper, RecordEpisodeStatistics):
        state["elapsed"] = time.perf_counter() - wrapper.episode_start_time
    return state


def _set_state(wrapper: gymnasium.Wrapper, state: Any) -> None:
    if _takes_part(wrapper):
        wrapper.set_wrapper_state(state)  # type: ignore[attr-defined]
    elif not _is_stateless(wrapper):
        if isinstance(wrapper, RecordEpisodeStatistics):
            wrapper.episode_start_time = time.perf_counter() - state.pop("elapsed")
        vars(wrapper).update(state)
