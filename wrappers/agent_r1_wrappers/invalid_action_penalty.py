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
        only_malformed: Whether only replies without a valid call cost, and commands that the env refuses do not.

    Raises:
        ValueError: If ``penalty`` is negative.
    """

    stateless = True

    def __init__(self, env: gymnasium.Env[Any, Any], penalty: float = 0.1, *, only_malformed: bool = False) -> None:
        RecordConstructorArgs.__init__(self, penalty=penalty, only_malformed=only_malformed)
        gymnasium.Wrapper.__init__(self, env)
        if not penalty >= 0:
            raise ValueError(f"penalty is subtracted, so it must not be negative, got {penalty}")
        self._penalty = float(penalty)
        self._only_malformed = only_malformed

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pass the action on and charge for it, if it was invalid."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        # An action format says which command the env got, if any.
        free = "invalid_action" not in info or (self._only_malformed and "action" in info)
        charge = 0.0 if free else self._penalty
        return observation, float(reward) - charge, terminated, truncated, info
