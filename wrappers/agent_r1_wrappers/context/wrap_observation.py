"""A frame around what the env says."""

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.spaces import FreeText
from agent_r1_wrappers.stack import require_text


class WrapObservation(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Puts text before and after each observation, such as Search-R1's ``<information>..</information>``.

    Args:
        env: An env with text observations and actions.
        before: What precedes an observation.
        after: What follows it.
        first: Whether the observation of reset gets it too.

    Raises:
        WrapperOrderError: If observations or actions of ``env`` are not text.
    """

    stateless = True

    def __init__(self, env: gymnasium.Env[str, str], *, before: str = "", after: str = "", first: bool = False) -> None:
        RecordConstructorArgs.__init__(self, before=before, after=after, first=first)
        gymnasium.Wrapper.__init__(self, env)
        space = require_text(self, env)
        self.observation_space = FreeText(space.max_length + len(before) + len(after))
        self._before = before
        self._after = after
        self._first = first

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._framed(observation) if self._first else observation, info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Pass the action on and frame the answer."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._framed(observation), reward, terminated, truncated, info

    def _framed(self, observation: str) -> str:
        return f"{self._before}{observation}{self._after}"
