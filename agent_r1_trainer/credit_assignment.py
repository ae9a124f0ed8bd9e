"""From what all ranks know about a batch to the advantage of every step or token of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from agent_r1_trainer import credit
from agent_r1_trainer.credit.batch import Floats
from agent_r1_trainer.experience import BatchFacts
from agent_r1_trainer.mixture import MixtureEntry
from agent_r1_trainer.reward_scalers import RewardScalers
from agent_r1_trainer.steppo_checks import options

if TYPE_CHECKING:
    from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["CreditAssigner", "explained_variance"]


class CreditAssigner:
    """Scales rewards, builds the `CreditBatch` and runs the estimator: once, or once for each environment.

    Every rank calls it with the same arguments and gets the same numbers.

    Args:
        config: The settings.
        scalers: The running reward scales, or None for none.
        envs: The environments of a mixture by name; empty where there is one only.
    """

    def __init__(
        self, config: StepPOConfig, scalers: RewardScalers | None, envs: Mapping[str, MixtureEntry] | None = None
    ) -> None:
        self.estimator = credit.get(config.advantage_estimator)
        self._options = options(config.advantage_kwargs)
        self._gamma, self._lam = config.gamma, config.lam
        self._apart = config.whitening_scope == "environment"
        self._scalers = scalers
        self._envs = envs or {}

    def assign(
        self, facts: Sequence[BatchFacts], values: Floats, penalties: Floats, finals: Floats
    ) -> tuple[credit.Credit, dict[str, float]]:
        """Assign credit to the whole batch.

        K trajectories have N steps and M response tokens together; V is M for an estimator of level "token", else N.

        Args:
            facts: [K] the trajectories of all ranks.
            values: [V] the critic's values, zeros without one.
            penalties: [N] what the KL takes off each step's reward, unscaled.
            finals: [K] value after the last step of each trajectory.

        Returns:
            The credit of the V steps or tokens, and metrics.
        """
        names = list(dict.fromkeys(fact.env for fact in facts))
        rewards, scales = self._scaled_rewards(facts, penalties, names)
        metrics = {f"{name}/reward_scale" if name else "reward_scale": scale for name, scale in scales.items()}
        batch = self._batch(facts, rewards, values, finals)
        advantages, returns = np.zeros_like(values), np.zeros_like(values)
        parts = [np.array([fact.env == name for fact in facts]) for name in names] if self._apart else []
        for part in parts or [np.ones(len(facts), dtype=np.bool_)][: bool(facts)]:
            result = self.estimator(batch.select(part), gamma=self._gamma, lam=self._lam, **self._options)
            steps = part[batch.trajectory]
            where = steps[batch.token_step] if self.estimator.level == "token" else steps
            advantages[where] = result.advantages
            if result.returns is not None:
                returns[where] = result.returns
        if self.estimator.needs_values:
            metrics["value/mean"] = _mean(values)
            metrics["value/return_mean"] = _mean(returns)
            metrics["value/explained_variance"] = explained_variance(values, returns)
        if penalties.any():
            metrics["kl_penalty"] = _mean(penalties)
        return credit.Credit(advantages, returns if self.estimator.needs_values else None), metrics

    def _scaled_rewards(
        self, facts: Sequence[BatchFacts], penalties: Floats, names: Sequence[str]
    ) -> tuple[Floats, dict[str, float]]:
        """Rewards [N] in the units of the critic, and what those of each environment were divided by."""
        lengths = np.array([len(fact.rewards) for fact in facts], dtype=np.int64)
        owners = np.repeat(np.arange(len(facts)), lengths)
        rewards = np.array([reward for fact in facts for reward in fact.rewards], dtype=np.float64)
        factors = np.array([self._envs[fact.env].reward_scale if fact.env in self._envs else 1.0 for fact in facts])
        rewards = rewards * factors[owners] - penalties
        scales = dict.fromkeys(names, 1.0)
        if self._scalers is None:
            return rewards, scales
        pieces = np.split(rewards, np.cumsum(lengths)[:-1])
        for name in names:
            of_env = [piece for piece, fact in zip(pieces, facts, strict=True) if fact.env == name]
            scales[name] = self._scalers.update(name, [piece.tolist() for piece in of_env])
        divisors = np.array([scales[fact.env] for fact in facts])
        return rewards / divisors[owners], scales

    def _batch(
        self, facts: Sequence[BatchFacts], rewards: Floats, values: Floats, finals: Floats
    ) -> credit.CreditBatch:
        lengths = np.array([length for fact in facts for length in fact.lengths], dtype=np.int64)
        at_tokens = self.estimator.level == "token"
        anchors = None
        if self.estimator.needs_anchors:
            anchors = credit.anchor_numbers([anchor for fact in facts for anchor in fact.anchors or ()])
        groups = {key: number for number, key in enumerate(dict.fromkeys((fact.env, fact.group) for fact in facts))}
        return credit.CreditBatch(
            rewards=rewards,
            values=_first_values(values, lengths) if at_tokens else values,
            trajectory=np.repeat(np.arange(len(facts)), np.array([len(fact.rewards) for fact in facts], np.int64)),
            final_values=finals,
            groups=np.array([groups[fact.env, fact.group] for fact in facts], dtype=np.int64),
            response_lengths=lengths,
            token_values=values if at_tokens and self.estimator.needs_values else None,
            anchors=anchors,
        )


def _first_values(token_values: Floats, lengths: np.ndarray) -> Floats:
    """The value of each step: that of its first token, 0 for a step without one."""
    result = np.zeros(lengths.size, dtype=np.float64)
    real = lengths > 0
    result[real] = token_values[(np.cumsum(lengths) - lengths)[real]]
    return result


def explained_variance(values: np.ndarray, returns: np.ndarray) -> float:
    """Share of the returns' variance that the values explain; NaN where the returns do not vary."""
    variance = float(np.var(returns)) if returns.size else 0.0
    return 1.0 - float(np.var(returns - values)) / variance if variance > 1e-12 else float("nan")


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if values.size else float("nan")
