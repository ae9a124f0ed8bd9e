"""One running reward scale for each environment of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent_r1_trainer.credit import RewardScaler

__all__ = ["RewardScalers"]


class RewardScalers:
    """Keeps a `RewardScaler` for each environment, by its name: the rewards of one say nothing about another's.

    Args:
        gamma: Discount per step: the one of the advantage estimator.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._scalers: dict[str, RewardScaler] = {}

    def update(self, env: str, rewards: Iterable[Sequence[float]]) -> float:
        """Take in an environment's part of a batch and return what to divide its rewards by.

        Args:
            env: Name of the environment, empty where there is one only.
            rewards: The rewards of each of its trajectories, of all ranks.
        """
        return self._scalers.setdefault(env, RewardScaler(self._gamma)).update(rewards)

    def state_dict(self) -> dict[str, dict[str, float]]:
        """Return the state as plain data, for a checkpoint."""
        return {env: scaler.state_dict() for env, scaler in self._scalers.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, float]]) -> None:
        """Restore what `state_dict` gave."""
        self._scalers = {}
        for env, moments in state.items():
            self._scalers[env] = RewardScaler(self._gamma)
            self._scalers[env].load_state_dict(moments)
