"""A price on invalid actions."""

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs


class InvalidActionPenalty(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Subtracts ``penalty`` from the reward of each step whose ``info`` has ``"invalid_action"``.

    Put it above the action format, which reports replies without a valid call.

    Args:
        env: Any env that reports invalid actions.
        penalty: What an invalid action costs, at least 0.
        malformed_only: Whether a command that the env refused is free, so that only replies cost something in which the
            action format found no command.

    Raises:
        ValueError: If ``penalty`` is negative.
    """

    stateless = True

    def __init__(self, env: gymnasium.Env[Any, Any], penalty: float = 0.1, *, malformed_only: bool = False) -> None:
        RecordConstructorArgs.__init__(self, penalty=penalty, malformed_only=malformed_only)
        gymnasium.Wrapper.__init__(self, env)
        if not penalty >= 0:
            raise ValueError(f"penalty is subtracted, so it must not be negative, got {penalty}")
        self._penalty = float(penalty)
        self._malformed_only = malformed_only

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pass the action on and charge for it, if it was invalid."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        invalid = "invalid_action" in info and not (self._malformed_only and "action" in info)
        return observation, float(reward) - (self._penalty if invalid else 0.0), terminated, truncated, info
