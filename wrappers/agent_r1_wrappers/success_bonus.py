"""Success as an additional reward."""

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_wrappers.rewards import ends_in_success


class SuccessBonus(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds ``value`` to the reward of the step in which the episode ends in success.

    See :class:`~agent_r1_wrappers.rewards.SuccessReward` for when that is.

    Args:
        env: Any env that says ``info["success"]``.
        value: The bonus.
    """

    stateless = True

    def __init__(self, env: gymnasium.Env[Any, Any], value: float = 1.0) -> None:
        RecordConstructorArgs.__init__(self, value=value)
        gymnasium.Wrapper.__init__(self, env)
        self._value = float(value)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pass the action on.

        Raises:
            Error: If the episode ends and ``info`` does not say ``"success"``.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        bonus = self._value if ends_in_success(self, terminated, truncated, info) else 0.0
        return observation, float(reward) + bonus, terminated, truncated, info
