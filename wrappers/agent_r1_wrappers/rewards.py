"""Rewards of the outcome: success alone, success as a bonus, and a price on invalid actions."""

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
