"""What tells the state of an environment from others, for estimators that compare steps taken in the same state."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium

from agent_r1_envs.digest import digest
from agent_r1_envs.errors import SnapshotError

__all__ = ["AnchorKind", "record_observations", "state_anchor"]

AnchorKind = Literal["state", "observation"]


class _Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps the last observation of an environment before its other wrappers make something else of it."""

    last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.last, info = self.env.reset(seed=seed, options=options)
        return self.last, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.last, *rest = self.env.step(action)
        return self.last, *rest


def record_observations(env: gymnasium.Env[Any, Any]) -> None:
    """Keep what the innermost environment says, so that `state_anchor` finds it; call it before a reset.

    It goes directly around `env.unwrapped`, inside all wrappers. An environment without wrappers needs nothing.
    """
    inner = _innermost_wrapper(env)
    if inner is not None and not isinstance(inner, _Recorder):
        inner.env = _Recorder(inner.env)


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
