"""Scores a collected batch and assigns its credit.

Groups that teach nothing, because every sample of the task got the same return, may be left out.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from agent_r1_trainer import credit
from agent_r1_trainer._compat import base_causal_lm
from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.learning.agreement import (
    computes_exactly,
    measure_differences,
    refuse_disagreement,
    warn_of_difference,
)
from agent_r1_trainer.learning.assignment import CreditAssigner
from agent_r1_trainer.learning.critic import SeparateCritic
from agent_r1_trainer.learning.distributed import any_rank, gather_items, largest
from agent_r1_trainer.learning.experience import BatchFacts, Experience, add_fillers, plan_updates
from agent_r1_trainer.learning.scoring import Reference, ValueHead, score
from agent_r1_trainer.learning.value_scale import ValueScales
from agent_r1_trainer.losses import kl_in_reward
from agent_r1_trainer.packing import Layout, MicroBatch, collate, merge_units, micro_batches, packing_stats
from agent_r1_trainer.trajectory import Step, StopReason, TokenIds, Trajectory

if TYPE_CHECKING:
    from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["ExperienceMaker", "zero_variance"]


def zero_variance(facts: Sequence[BatchFacts]) -> tuple[list[bool], float]:
    """Find the trajectories whose group has no variance in its returns.

    A return is the undiscounted sum of the rewards that the environment gave. Returns within 1e-6 of each other
    (relative to the largest, if that is above 1) are equal: sums of the same rewards in another order differ by
    rounding. A group of one has no variance either, but that is the choice of the run and no property of the task: it
    never counts.

    Args:
        facts: The unmasked trajectories of all ranks.

    Returns:
        For each trajectory whether its group is one of at least two equal returns, and the share of such groups among
        those of at least two; NaN if there are none.
    """
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, fact in enumerate(facts):
        groups[fact.env, fact.group].append(index)
    flags = [False] * len(facts)
    several = [members for members in groups.values() if len(members) > 1]
    flat = [members for members in several if _equal([sum(facts[index].rewards) for index in members])]
    for members in flat:
        for index in members:
            flags[index] = True
    return flags, len(flat) / len(several) if several else float("nan")


def _equal(returns: Sequence[float]) -> bool:
    return max(returns) - min(returns) <= 1e-6 * max(1.0, max(map(abs, returns)))


class ExperienceMaker:
    """Turns trajectories into an `Experience`.

    Args:
        config: The settings.
        accelerator: For the device and for gathering.
        policy: The policy without its distributed wrapper: scoring a batch needs no collective.
        critic: The separate critic, or None.
        reference: The reference, or None.
        scales: The units of the critic; None without one.
        pad_id: Padding.
        token_budget: Most tokens, padding included, in one forward pass.
        merge: Whether steps are merged into sequences.
        envs: The environments of a mixture by name; empty where there is one only.
        loss_divisors: Dr. GRPO's constant for each environment, by name; see `plan_updates`.
        foreign: Whether another engine samples, so that every rollout is compared.
    """

    def __init__(
        self,
        config: StepPOConfig,
        accelerator: Accelerator,
        policy: nn.Module,
        *,
        critic: SeparateCritic | None,
        reference: Reference | None,
        scales: ValueScales | None,
        pad_id: int,
        token_budget: int,
        merge: bool,
        envs: Mapping[str, MixtureEntry] | None = None,
        loss_divisors: Mapping[str, float] | None = None,
        foreign: bool = False,
    ) -> None:
        self._config = config
        self._accelerator = accelerator
        self._policy = policy
        self._critic = critic
        self._reference = reference
        self._pad_id = pad_id
        self._token_budget = token_budget
        self._merge = merge
        self._loss_weights = {name: entry.loss_weight for name, entry in (envs or {}).items()}
        self._loss_divisors = loss_divisors
        self._scales = scales
        self._assigner = CreditAssigner(config, scales, envs)
        self._estimator = self._assigner.estimator
        self._foreign = foreign
        self._compared = False  # whether sampler and trainer were, in this process

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
        ranks = gather_items(self._accelerator, [[self._facts(trajectory) for trajectory in kept]])
        flags, flat_share = zero_variance([fact for rank in ranks for fact in rank])
        metrics = {"groups/zero_variance_ratio": flat_share}
        if config.filter_zero_variance_groups:
            offset = sum(map(len, ranks[: self._accelerator.process_index]))
            kept = [trajectory for index, trajectory in enumerate(kept, offset) if not flags[index]]
            left = iter(flags)
            ranks = [[fact for fact in rank if not next(left)] for rank in ranks]
        facts = [fact for rank in ranks for fact in rank]
        layout = self._layout(kept)
        updates = plan_updates(
            kept,
            merge_units(kept, self._merge),
            layout,
            facts,
            first=sum(map(len, ranks[: self._accelerator.process_index])),
            epochs=config.num_ppo_epochs,
            minibatches=config.num_minibatches,
            seed=(config.seed, rollout),
            aggregation=config.loss_aggregation,
            token_budget=self._token_budget,
            pad_id=self._pad_id,
            level=self._estimator.level,
            loss_weights=self._loss_weights,
            loss_divisors=self._loss_divisors,
        )
        experience = Experience.unscored(
            rollout, kept, layout, updates, level=self._estimator.level, with_reference=self._reference is not None
        )
        # The micro-batches of the first epoch hold every step once. Scored in just these shapes, the old
        # log-probabilities equal those of the first update to the last bit, and its ratios are exactly 1.
        first_epoch = [batch for update in updates[: config.num_minibatches] for batch in update.batches]
        self._score(experience, first_epoch)
        penalties = self._kl_penalties(experience, first_epoch)
        finals = self._final_values(kept)
        if config.mask_overlong_episodes:
            metrics["overlong_ratio"] = _mean([float(fact.overlong) for fact in facts])
        metrics["bootstrapped_ratio"] = _mean([float(fact.bootstrapped) for fact in facts])
        metrics.update(self._assign(experience, facts, penalties, finals))
        metrics.update(self._sampler_metrics(experience))
        if config.updates_per_rollout == 1:
            experience.old_logps = None
        metrics.update(self._packing_metrics(kept, first_epoch))
        add_fillers(updates, largest(self._accelerator, [len(update.batches) for update in updates]), self._pad_id)
        return experience, metrics

    def _layout(self, trajectories: Sequence[Trajectory]) -> Layout:
        return Layout(trajectories, None if self._scales is None else self._scales.rows)

    def _facts(self, trajectory: Trajectory) -> BatchFacts:
        steps = trajectory.steps
        silenced = [step.finish == "length" for step in steps] if self._config.mask_truncated_completions else None
        return BatchFacts(
            rewards=trajectory.rewards,
            lengths=[len(step.response_ids) for step in steps],
            units=[unit.num_steps for unit in merge_units([trajectory], self._merge)],
            group=trajectory.group,
            bootstrapped=self._estimator.needs_values and credit.bootstraps(trajectory, self._config.bootstrap),
            env=trajectory.env,
            silenced=silenced,
            anchors=[_anchor(step) for step in steps] if self._estimator.needs_anchors else None,
            overlong=self._config.mask_overlong_episodes and trajectory.stop is StopReason.PROMPT_TOO_LONG,
        )

    def _score(self, experience: Experience, batches: Sequence[MicroBatch]) -> None:
        """Fill in old log-probabilities, values and reference log-probabilities."""
        needs_policy = self._scores_policy or self._to_compare(experience)
        if not needs_policy:
            experience.old_logps = None
        self._policy.eval()
        for batch in batches:
            batch = batch.to(self._accelerator.device)
            if needs_policy:
                scores = score(self._policy, batch, values=self._with_head, level=experience.level)
                if experience.old_logps is not None:
                    batch.write_tokens(experience.old_logps, scores.logprobs)
                if scores.values is not None:
                    batch.write(experience.old_values, scores.values, experience.level)
            if self._critic is not None:
                values = self._critic.values(batch, wrapped=False, level=experience.level)
                batch.write(experience.old_values, values, experience.level)
            if self._reference is not None:
                with self._accelerator.autocast():  # a frozen copy was never prepared
                    batch.write_tokens(_present(experience.ref_logps), self._reference.logprobs(batch))

    def _kl_penalties(self, experience: Experience, batches: Sequence[MicroBatch]) -> Tensor:
        """What the KL takes off each local step's reward, [N]."""
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
        """How far the sampler's log-probabilities are from the trainer's, over the tokens where both are known.

        Raises:
            ValueError: In the first rollout of the process, they disagree.
        """
        if experience.old_logps is None:
            return {}
        config = self._config
        mine = measure_differences(
            experience.sampler_logps,
            experience.old_logps,
            experience.trajectories,
            top_p=config.top_p,
            top_k=config.top_k,
        )
        ranks = gather_items(self._accelerator, [mine])
        known = sum(rank.known for rank in ranks)
        if known and not self._compared:
            exact = self._accelerator.mixed_precision == "no" and computes_exactly(self._policy)
            refuse_disagreement(ranks, exact=exact, foreign=self._foreign)
            self._compared = True
        if not self._scores_policy and not self._foreign:
            return {}  # as in every other rollout
        alarm: dict[str, float] = {}
        if self._foreign:
            alarm["sampling/logp_alarm"] = float(warn_of_difference(ranks, config.max_logp_difference))
        return {
            **alarm,
            "sampling/logp_difference/mean": sum(rank.total for rank in ranks) / max(known, 1),
            "sampling/logp_difference/max": max(rank.largest for rank in ranks),
            "sampling/missing_ratio": 1.0 - known / max(sum(rank.tokens for rank in ranks), 1),
        }

    @property
    def _with_head(self) -> bool:
        """Whether values are read from the policy's own head."""
        return self._estimator.needs_values and self._critic is None

    @property
    def _scores_policy(self) -> bool:
        """Whether every rollout is scored with the policy.

        One update per rollout needs no old log-probabilities: they are the current ones, detached.
        """
        in_reward = self._reference is not None and self._config.kl_in == "reward"
        return self._with_head or in_reward or self._config.updates_per_rollout > 1

    def _to_compare(self, experience: Experience) -> bool:
        """Whether there are log-probabilities of the sampler, on any rank, for the first time or from elsewhere."""
        return (self._foreign or not self._compared) and any_rank(
            self._accelerator, not bool(experience.sampler_logps.isnan().all())
        )

    def _final_values(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """What the critic predicts, in its units, for the end of each local trajectory that is bootstrapped, else 0."""
        if not self._estimator.needs_values:
            return [0.0] * len(trajectories)
        which, queries = credit.value_queries(trajectories, self._config.bootstrap)
        layout = self._layout(queries)
        values = torch.zeros(layout.num_steps)
        for group in micro_batches(merge_units(queries), self._token_budget):
            batch = collate(group, queries, layout, self._pad_id).to(self._accelerator.device)
            if self._critic is not None:
                batch.write_steps(values, self._critic.values(batch, wrapped=False))
            else:
                batch.write_steps(values, _present(score(self._policy, batch, values=True).values))
        return credit.final_values(len(trajectories), which, values.tolist()).tolist()

    def _assign(
        self, experience: Experience, facts: Sequence[BatchFacts], penalties: Tensor, finals: Sequence[float]
    ) -> dict[str, float]:
        """Compute the credit of the whole batch, keep this rank's part, and bring the critic's units up to date."""
        gathered = gather_items(self._accelerator, [(experience.old_values.tolist(), penalties.tolist(), list(finals))])
        values, penalty, final = (
            np.array([number for rank in gathered for number in rank[part]], dtype=np.float64) for part in range(3)
        )
        result = self._assigner.assign(facts, values, penalty, final)
        first = sum(len(rank[0]) for rank in gathered[: self._accelerator.process_index])
        window = slice(first, first + experience.old_values.numel())
        experience.advantages, experience.old_values, experience.returns = (
            torch.from_numpy(numbers[window].astype(np.float32))
            for numbers in (result.advantages, result.values, result.returns)
        )
        if self._scales is not None:
            head = base_causal_lm(self._policy).value_head if self._critic is None else self._critic.model.head
            assert isinstance(head, ValueHead)
            for env, (before, after) in result.units.items():
                head.change_units(self._scales.rows[env], *before.change(after))
                experience.units[env] = after
        return result.metrics

    def _packing_metrics(self, trajectories: Sequence[Trajectory], batches: Sequence[MicroBatch]) -> dict[str, float]:
        """What a pass over the batch computes, against what there is to compute."""
        mine = (
            packing_stats(trajectories, []).distinct,
            sum(int(batch.attention_mask.sum()) for batch in batches),
            sum(batch.attention_mask.numel() for batch in batches),
        )
        distinct, computed, padded = (
            sum(column) for column in zip(*gather_items(self._accelerator, [mine]), strict=True)
        )
        return {
            "tokens/computed_per_distinct": computed / distinct if distinct else float("nan"),
            "tokens/padding_share": (padded - computed) / padded if padded else float("nan"),
        }


def _anchor(step: Step) -> str:
    """What tells the step's state; where the flow says nothing, an equal prompt is an equal state for the policy."""
    if step.anchor:
        return step.anchor
    return hashlib.sha256(np.asarray(TokenIds(step.prompt_ids)).tobytes()).hexdigest()


def _mean(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _present(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor
