"""Success as the only reward."""

from typing import Any

import gymnasium
from gymnasium.error import Error
from gymnasium.utils import RecordConstructorArgs


class SuccessReward(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Replaces the reward: ``value`` where the episode ends in success, 0 everywhere else.

    The episode ends where ``terminated`` or ``truncated`` is set below this wrapper, so put it above ``TimeLimit``, as
    ``gymnasium.make`` does. A win on the last turn counts, although ``TimeLimit`` calls it truncated as well.

    Args:
        env: Any env that says ``info["success"]``.
        value: The reward of success.
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
        observation, _, terminated, truncated, info = self.env.step(action)
        won = ends_in_success(self, terminated, truncated, info)
        return observation, self._value if won else 0.0, terminated, truncated, info


def ends_in_success(wrapper: gymnasium.Wrapper, terminated: bool, truncated: bool, info: dict[str, Any]) -> bool:
    """Return whether this step ends the episode in success.

    Raises:
        Error: If the episode ends and ``info`` does not say ``"success"``.
    """
    if not (terminated or truncated):
        return False
    if "success" not in info:
        raise Error(f"{type(wrapper).__name__} needs info['success'] at the end of an episode; {wrapper.env} has none")
    return bool(info["success"])
