"""Scores a collected batch and assigns its credit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from agent_r1_trainer import credit
from agent_r1_trainer.critic import SeparateCritic
from agent_r1_trainer.distributed import gather_items, largest
from agent_r1_trainer.experience import BatchFacts, Experience, add_fillers, plan_updates
from agent_r1_trainer.losses import kl_in_reward
from agent_r1_trainer.packing import Layout, MicroBatch, collate, merge_units, micro_batches, packing_stats
from agent_r1_trainer.scorer import Reference, score
from agent_r1_trainer.trajectory import Trajectory

if TYPE_CHECKING:
    from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["ExperienceMaker"]


class ExperienceMaker:
    """Turns trajectories into an `Experience`.

    Args:
        config: The settings.
        accelerator: For the device and for gathering.
        policy: The policy without its distributed wrapper: scoring a batch needs no collective.
        critic: The separate critic, or None.
        reference: The reference, or None.
        scaler: Reward scaler, or None.
        pad_id: Padding.
        merge: Whether steps are merged into sequences.
    """

    def __init__(
        self,
        config: StepPOConfig,
        accelerator: Accelerator,
        policy: nn.Module,
        *,
        critic: SeparateCritic | None,
        reference: Reference | None,
        scaler: credit.RewardScaler | None,
        pad_id: int,
        merge: bool,
    ) -> None:
        self._config = config
        self._accelerator = accelerator
        self._policy = policy
        self._critic = critic
        self._reference = reference
        self._scaler = scaler
        self._pad_id = pad_id
        self._merge = merge
        self._estimator = credit.get(config.advantage_estimator)

    @torch.no_grad()
    def make(self, rollout: int, trajectories: Sequence[Trajectory]) -> tuple[Experience, dict[str, float]]:
        """Score this rank's trajectories and compute the credit of the whole batch.

        Args:
            rollout: Number of the rollout.
            trajectories: What this rank collected, masked ones included.

        Returns:
            The experience, and metrics that are equal on all ranks.
        """
        config = self._config
        kept = [trajectory for trajectory in trajectories if not trajectory.masked]
        layout = Layout(kept)
        units = merge_units(kept, self._merge)
        mine = [
            self._facts(trajectory, [u.num_steps for u in units if u.trajectory == i])
            for i, trajectory in enumerate(kept)
        ]
        ranks = gather_items(self._accelerator, [mine])
        facts = [fact for rank in ranks for fact in rank]
        updates = plan_updates(
            kept,
            units,
            layout,
            facts,
            first=sum(map(len, ranks[: self._accelerator.process_index])),
            epochs=config.num_ppo_epochs,
            minibatches=config.num_minibatches,
            seed=(config.seed, rollout),
            aggregation=config.loss_aggregation,
            token_budget=config.token_budget,
            pad_id=self._pad_id,
        )
        experience = Experience(
            rollout=rollout,
            trajectories=kept,
            layout=layout,
            updates=updates,
            advantages=torch.zeros(layout.num_steps),
            returns=torch.zeros(layout.num_steps),
            old_values=torch.zeros(layout.num_steps),
            old_logps=torch.zeros(layout.num_tokens),
            ref_logps=torch.zeros(layout.num_tokens) if self._reference is not None else None,
            sampler_logps=layout.sampler_logps(kept),
        )
        # The micro-batches of the first epoch hold every step once. Scored in just these shapes, the old
        # log-probabilities equal those of the first update to the last bit, and its ratios are exactly 1.
        first_epoch = [batch for update in updates[: config.num_minibatches] for batch in update.batches]
        self._score(experience, first_epoch)
        penalties = self._kl_penalties(experience, first_epoch)
        finals = self._final_values(kept)
        metrics = self._assign(experience, facts, penalties, finals)
        metrics.update(self._sampler_metrics(experience))
        if config.updates_per_rollout == 1:
            experience.old_logps = None
        stats = packing_stats(kept, micro_batches(units, config.token_budget))
        tokens = gather_items(self._accelerator, [(stats.distinct, stats.computed, stats.padded)])
        distinct, computed, padded = (sum(column) for column in zip(*tokens, strict=True))
        metrics["tokens/computed_per_distinct"] = computed / max(distinct, 1)
        metrics["tokens/padded_per_distinct"] = padded / max(distinct, 1)
        add_fillers(updates, largest(self._accelerator, [len(update.batches) for update in updates]), self._pad_id)
        return experience, metrics

    def _facts(self, trajectory: Trajectory, units: list[int]) -> BatchFacts:
        return BatchFacts(
            rewards=trajectory.rewards,
            lengths=[len(step.response_ids) for step in trajectory.steps],
            units=units,
            group=trajectory.group,
            bootstrapped=self._estimator.needs_values and credit.bootstraps(trajectory, self._config.bootstrap),
        )

    def _score(self, experience: Experience, batches: Sequence[MicroBatch]) -> None:
        """Fill in old log-probabilities, values and reference log-probabilities."""
        with_head = self._estimator.needs_values and self._critic is None
        # One update per rollout needs no old log-probabilities: they are the current ones, detached.
        in_reward = self._reference is not None and self._config.kl_in == "reward"
        needs_policy = with_head or in_reward or self._config.updates_per_rollout > 1
        if not needs_policy:
            experience.old_logps = None
        self._policy.eval()
        for batch in batches:
            batch = batch.to(self._accelerator.device)
            if needs_policy:
                scores = score(self._policy, batch, values=with_head)
                batch.write_tokens(_present(experience.old_logps), scores.logprobs)
                if scores.values is not None:
                    batch.write_steps(experience.old_values, scores.values)
            if self._critic is not None:
                batch.write_steps(experience.old_values, self._critic.values(batch, wrapped=False))
            if self._reference is not None:
                with self._accelerator.autocast():  # a frozen copy was never prepared
                    batch.write_tokens(_present(experience.ref_logps), self._reference.logprobs(batch))

    def _kl_penalties(self, experience: Experience, batches: Sequence[MicroBatch]) -> Tensor:
        """What the KL takes off each local step's reward, [N], unscaled."""
        penalties = torch.zeros(experience.layout.num_steps)
        if self._reference is None or self._config.kl_in != "reward":
            return penalties
        for batch in batches:
            old, ref = (
                batch.read_tokens(_present(experience.old_logps)),
                batch.read_tokens(_present(experience.ref_logps)),
            )
            batch.write_steps(penalties, self._config.beta * kl_in_reward(old, ref, batch.token_step, batch.num_steps))
        return penalties

    def _sampler_metrics(self, experience: Experience) -> dict[str, float]:
        """How far the sampler's log-probabilities are from the trainer's, over the tokens where both are known."""
        if experience.old_logps is None:
            return {}
        difference = (experience.old_logps - experience.sampler_logps).abs()
        known = difference[torch.isfinite(difference)].double()
        mine = (float(known.sum()), float(known.max()) if len(known) else 0.0, len(known), len(difference))
        sums, maxima, counts, totals = zip(*gather_items(self._accelerator, [mine]), strict=True)
        return {
            "sampling/logp_difference/mean": sum(sums) / max(sum(counts), 1),
            "sampling/logp_difference/max": max(maxima),
            "sampling/missing_ratio": 1.0 - sum(counts) / max(sum(totals), 1),
        }

    def _final_values(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """Value after each local trajectory: the critic's where it is bootstrapped, else 0."""
        if not self._estimator.needs_values:
            return [0.0] * len(trajectories)
        which, queries = credit.value_queries(trajectories, self._config.bootstrap)
        layout = Layout(queries)
        values = torch.zeros(layout.num_steps)
        for group in micro_batches(merge_units(queries), self._config.token_budget):
            batch = collate(group, queries, layout, self._pad_id).to(self._accelerator.device)
            if self._critic is not None:
                batch.write_steps(values, self._critic.values(batch, wrapped=False))
            else:
                batch.write_steps(values, _present(score(self._policy, batch, values=True).values))
        return credit.final_values(len(trajectories), which, values.tolist()).tolist()

    def _assign(
        self, experience: Experience, facts: Sequence[BatchFacts], penalties: Tensor, finals: Sequence[float]
    ) -> dict[str, float]:
        """Compute the credit of the whole batch and keep this rank's part of it."""
        gathered = gather_items(self._accelerator, [(experience.old_values.tolist(), penalties.tolist(), list(finals))])
        values = np.array([value for rank in gathered for value in rank[0]], dtype=np.float64)
        penalty = np.array([value for rank in gathered for value in rank[1]], dtype=np.float64)
        rewards = np.array([reward for fact in facts for reward in fact.rewards], dtype=np.float64) - penalty
        lengths = [len(fact.rewards) for fact in facts]
        scale = 1.0
        if self._scaler is not None:
            scale = self._scaler.update(part.tolist() for part in np.split(rewards, np.cumsum(lengths)[:-1]))
        batch = credit.CreditBatch(
            rewards=rewards / scale,
            values=values,
            trajectory=np.repeat(np.arange(len(facts)), lengths),
            final_values=np.array([value for rank in gathered for value in rank[2]], dtype=np.float64),
            groups=np.array([fact.group for fact in facts], dtype=np.int64),
        )
        result = self._estimator(batch, gamma=self._config.gamma, lam=self._config.lam)
        first = sum(len(rank[0]) for rank in gathered[: self._accelerator.process_index])
        window = slice(first, first + experience.layout.num_steps)
        experience.advantages = torch.from_numpy(result.advantages[window].astype(np.float32))
        metrics = {"reward_scale": scale, "bootstrapped_ratio": _mean([float(fact.bootstrapped) for fact in facts])}
        if result.returns is not None:
            experience.returns = torch.from_numpy(result.returns[window].astype(np.float32))
            metrics["value/mean"] = _mean(values)
            metrics["value/return_mean"] = _mean(result.returns)
            metrics["value/explained_variance"] = explained_variance(values, result.returns)
        if penalty.any():
            metrics["kl_penalty"] = _mean(penalty)
        return metrics


def explained_variance(values: np.ndarray, returns: np.ndarray) -> float:
    """Share of the returns' variance that the values explain; NaN where the returns do not vary."""
    variance = float(np.var(returns)) if returns.size else 0.0
    return 1.0 - float(np.var(returns - values)) / variance if variance > 1e-12 else float("nan")


def _mean(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _present(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor
