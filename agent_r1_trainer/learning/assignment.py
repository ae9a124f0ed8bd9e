"""From what all ranks know about a batch to the advantage of every step or token of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agent_r1_trainer import credit
from agent_r1_trainer.credit.batch import Floats, Integers
from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.learning.experience import BatchFacts
from agent_r1_trainer.learning.value_scale import Units, ValueScales
from agent_r1_trainer.steppo_config import options

if TYPE_CHECKING:
    from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["AssignedCredit", "CreditAssigner", "explained_variance"]


@dataclass(frozen=True, eq=False, slots=True)
class AssignedCredit:
    """What an update needs of the whole batch. V is as in `CreditAssigner.assign`.

    Attributes:
        advantages: [V] as they enter the policy loss.
        values: [V] the critic's predictions at collection, in the units that hold from now on; zeros without a critic.
        returns: [V] its targets, in the same units; zeros without one.
        units: For each environment of the batch the units until now and from now on; empty without a critic.
        metrics: Equal on all ranks.
    """

    advantages: Floats
    values: Floats
    returns: Floats
    units: dict[str, tuple[Units, Units]]
    metrics: dict[str, float]


class CreditAssigner:
    """Builds the `CreditBatch` and runs the estimator: once, or once for each environment.

    Credit is assigned in units of the reward. A critic predicts in units of its own, which follow the targets: they are
    brought up to date with the batch before its values are used. How far these are believed, the batch decides too
    (see `credit.calibrate`).

    Every rank calls it with the same arguments and gets the same numbers.

    Args:
        config: The settings.
        scales: The units of the critic; None without one.
        envs: The environments of a mixture by name; empty where there is one only.
    """

    def __init__(
        self, config: StepPOConfig, scales: ValueScales | None, envs: Mapping[str, MixtureEntry] | None = None
    ) -> None:
        self.estimator = credit.get(config.advantage_estimator)
        self._options = options(config.advantage_kwargs)
        self._gamma, self._lam = config.gamma, config.lam
        self._apart = config.whitening_scope == "environment"
        self._scales = scales
        self._envs = envs or {}

    def assign(
        self, facts: Sequence[BatchFacts], predictions: Floats, penalties: Floats, finals: Floats
    ) -> AssignedCredit:
        """Assign credit to the whole batch.

        K trajectories have N steps and M response tokens together; V is M for an estimator of level "token", else N.

        Args:
            facts: [K] the trajectories of all ranks.
            predictions: [V] what the critic predicted, in its units; zeros without one.
            penalties: [N] what the KL takes off each step's reward.
            finals: [K] what it predicted for the end of the trajectories that are bootstrapped.
        """
        batch = self._batch(facts, penalties)
        owners = batch.owners(self.estimator.level)
        metrics: dict[str, float] = {}
        units: dict[str, tuple[Units, Units]] = {}
        values = raw = predictions
        if self._scales is not None:
            ends = np.array([fact.bootstrapped for fact in facts], dtype=np.float64)
            targets = self._targets(self._scales, facts, batch, ends, finals)
            units = {name: self._scales.update(name, targets[part[owners]].tolist()) for name, part in _parts(facts)}
            before = _Each([units[fact.env][0] for fact in facts])
            after = _Each([units[fact.env][1] for fact in facts])
            raw = before.mean[owners] + before.scale[owners] * predictions
            believed, tails = raw.copy(), before.mean + before.scale * finals
            for name, part in _parts(facts):
                steps = part[owners]
                fit = credit.calibrate(raw[steps], targets[steps])
                believed[steps], tails[part] = fit.apply(raw[steps]), fit.apply(tails[part])
                prefix = f"{name}/" if name else ""
                metrics |= {f"{prefix}value/slope": fit.slope, f"{prefix}value/scale": units[name][1].scale}
            batch = replace(self._with_values(batch, believed, ends * tails), scales=after.scale)
        advantages, returns = self._estimate(facts, batch, owners)
        if self._scales is not None:
            metrics["value/mean"], metrics["value/return_mean"] = _mean(raw), _mean(returns)
            values = (raw - after.mean[owners]) / after.scale[owners]
            returns = (returns - after.mean[owners]) / after.scale[owners]
            metrics["value/explained_variance"] = explained_variance(values, returns)
        if penalties.any():
            metrics["kl_penalty"] = _mean(penalties)
        return AssignedCredit(advantages, values, returns, units, metrics)

    def _estimate(
        self, facts: Sequence[BatchFacts], batch: credit.CreditBatch, owners: Integers
    ) -> tuple[Floats, Floats]:
        """Advantages [V] and targets [V], in units of the reward."""
        advantages, returns = np.zeros(owners.size), np.zeros(owners.size)
        parts = [part for _, part in _parts(facts)] if self._apart else []
        for part in parts or [np.ones(len(facts), dtype=np.bool_)][: bool(facts)]:
            result = self.estimator(batch.select(part), gamma=self._gamma, lam=self._lam, **self._options)
            advantages[part[owners]] = result.advantages
            if result.returns is not None:
                returns[part[owners]] = result.returns
        return advantages, returns

    def _targets(
        self, scales: ValueScales, facts: Sequence[BatchFacts], batch: credit.CreditBatch, ends: Floats, finals: Floats
    ) -> Floats:
        """What the critic is to predict [V], with lambda 1: no value enters but that after a limit foreign to the task.

        A trajectory that ends at one has 1 in `ends` [K]. A row that has learned nothing yet says 0 there.
        """
        known = _Each([scales.units(fact.env) or Units(0.0, 0.0) for fact in facts])
        tails = ends * np.nan_to_num(known.mean + known.scale * finals)
        blank = self._with_values(batch, np.zeros(batch.owners(self.estimator.level).size), tails)
        targets = self.estimator(blank, gamma=self._gamma, lam=1.0, **self._options).returns
        assert targets is not None  # the registry sees to it
        return targets

    def _batch(self, facts: Sequence[BatchFacts], penalties: Floats) -> credit.CreditBatch:
        """The batch with the rewards that are to be earned, and a critic that says 0."""
        counts = np.array([len(fact.rewards) for fact in facts], dtype=np.int64)
        owners = np.repeat(np.arange(len(facts)), counts)
        rewards = np.array([reward for fact in facts for reward in fact.rewards], dtype=np.float64)
        factors = np.array([self._envs[fact.env].reward_scale if fact.env in self._envs else 1.0 for fact in facts])
        groups = {key: number for number, key in enumerate(dict.fromkeys((fact.env, fact.group) for fact in facts))}
        anchors = None
        if self.estimator.needs_anchors:
            anchors = credit.anchor_numbers([anchor for fact in facts for anchor in fact.anchors or ()])
        return credit.CreditBatch(
            rewards=rewards * factors[owners] - penalties,
            values=np.zeros(rewards.size),
            trajectory=owners,
            final_values=np.zeros(len(facts)),
            groups=np.array([groups[fact.env, fact.group] for fact in facts], dtype=np.int64),
            response_lengths=np.array([length for fact in facts for length in fact.lengths], dtype=np.int64),
            anchors=anchors,
        )

    def _with_values(self, batch: credit.CreditBatch, values: Floats, finals: Floats) -> credit.CreditBatch:
        """The same batch with values [V] and values [K] after the last steps, in units of the reward."""
        if self.estimator.level == "step":
            return replace(batch, values=values, final_values=finals)
        first = _first_values(values, batch.response_lengths)
        return replace(batch, values=first, token_values=values, final_values=finals)


class _Each:
    """The units [K] that belong to each trajectory."""

    def __init__(self, units: Sequence[Units]) -> None:
        self.mean = np.array([each.mean for each in units], dtype=np.float64)
        self.scale = np.array([each.scale for each in units], dtype=np.float64)


def _parts(facts: Sequence[BatchFacts]) -> list[tuple[str, NDArray[np.bool_]]]:
    """The names of the environments, and which trajectories [K] are theirs."""
    names = dict.fromkeys(fact.env for fact in facts)
    return [(name, np.array([fact.env == name for fact in facts], dtype=np.bool_)) for name in names]


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
