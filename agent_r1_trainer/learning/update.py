"""One optimizer step: forward and backward over the micro-batches, then the decision whether to take it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from agent_r1_trainer._compat import base_causal_lm, synchronise_gradients
from agent_r1_trainer.learning.critic import SeparateCritic
from agent_r1_trainer.learning.distributed import any_rank, reduce_metrics
from agent_r1_trainer.learning.experience import Experience, Update
from agent_r1_trainer.learning.scoring import Scores, score
from agent_r1_trainer.losses import MetricSums, critic_loss, importance_weights, policy_loss
from agent_r1_trainer.packing import MicroBatch
from agent_r1_trainer.steppo_config import loss_config

if TYPE_CHECKING:
    from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["UpdateResult", "Updater"]


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What one optimizer step is about to do, equal on all ranks.

    Attributes:
        loss: Summed over micro-batches and ranks.
        grad_norm: Of the policy, before clipping.
        metrics: Means over the mini-batch.
    """

    loss: float
    grad_norm: float
    metrics: dict[str, float]


class Updater:
    """Computes gradients for the policy, its value head and the separate critic.

    After `run` the gradients are ready for the optimizers: averaged over ranks, clipped, and None where nothing may
    move. None matters: with a gradient of zeros AdamW would still move the weights, by their momentum and decay.

    Args:
        config: The settings.
        accelerator: Runs and synchronises the backward passes.
        policy: The policy without its distributed wrapper.
        critic: The separate critic, or None.
    """

    def __init__(
        self, config: StepPOConfig, accelerator: Accelerator, policy: nn.Module, critic: SeparateCritic | None
    ) -> None:
        self.skipped = 0
        self.skipped_in_row = 0
        self._config = config
        self._accelerator = accelerator
        self._critic = critic
        self._loss_config = loss_config(config)
        head = getattr(base_causal_lm(policy), "value_head", None)
        self._head = list(head.parameters()) if head is not None else []
        self._values_reach_trunk = bool(self._head) and config.value_grad_to_trunk == "full"
        in_head = {id(parameter) for parameter in self._head}
        self._policy = [p for p in policy.parameters() if p.requires_grad and id(p) not in in_head]

    def run(
        self, model: nn.Module, experience: Experience, index: int, *, warmup: bool, entropy: bool = False
    ) -> UpdateResult:
        """Compute the gradients of update `index` of a rollout.

        Args:
            model: The policy in its distributed wrapper.
            experience: The rollout.
            index: Which of its updates.
            warmup: Only the critic learns.
            entropy: Measure the policy's entropy, whether or not the loss has it.

        Raises:
            RuntimeError: Too many updates in a row had a loss or gradient that was not finite.
        """
        update = experience.updates[index]
        metrics = MetricSums()
        total = torch.zeros((), device=self._accelerator.device)
        for number, batch in enumerate(update.batches):
            batch = batch.to(self._accelerator.device)
            synchronise_gradients(self._accelerator, number == len(update.batches) - 1)
            if self._critic is None or not warmup:
                total += self._policy_pass(model, experience, update, batch, metrics, warmup=warmup, entropy=entropy)
            if self._critic is not None:
                total += self._critic_pass(self._critic, experience, update, batch, metrics)
        ranks = self._accelerator.num_processes
        metrics.record("loss", total[None] * ranks, torch.full_like(total[None], 1.0 / ranks))
        means = reduce_metrics(self._accelerator, metrics).means()
        grad_norm = self._decide(experience, index, means, warmup=warmup)
        loss = means.pop("loss")
        if index == 0 and "log_ratio/max" in means:
            # The weights are still those that collected the batch: anything but 0 here is a wrong old log-probability.
            means["log_ratio/first_max"] = means["log_ratio/max"]
        return UpdateResult(loss, grad_norm, means)

    def _policy_pass(
        self,
        model: nn.Module,
        experience: Experience,
        update: Update,
        batch: MicroBatch,
        metrics: MetricSums,
        *,
        warmup: bool,
        entropy: bool,
    ) -> Tensor:
        """Add one micro-batch's gradients to the policy and its value head; returns its share of the loss."""
        with_head = self._config.uses_critic and self._critic is None
        detach = warmup or self._config.value_grad_to_trunk == "detach"
        with self._synchronised_with_the_last(model):
            scores = score(
                model,
                batch,
                values=with_head,
                level=experience.level,
                detach_values=detach,
                entropy=entropy or self._config.entropy_coef > 0,
            )
            loss = self._policy_loss(scores, experience, update, batch, metrics)
            if scores.values is not None:
                value_loss = self._value_loss(scores.values, experience, update, batch, metrics)
                loss = loss + self._config.vf_coef * value_loss
            self._accelerator.backward(loss * self._accelerator.num_processes)
        return loss.detach()

    def _critic_pass(
        self, critic: SeparateCritic, experience: Experience, update: Update, batch: MicroBatch, metrics: MetricSums
    ) -> Tensor:
        """Add one micro-batch's gradients to the separate critic; returns its share of the loss."""
        with self._synchronised_with_the_last(critic.wrapped):
            values = critic.values(batch, wrapped=True, level=experience.level)
            loss = self._value_loss(values, experience, update, batch, metrics)
            self._accelerator.backward(loss * self._accelerator.num_processes)
        return loss.detach()

    def _synchronised_with_the_last(self, model: nn.Module) -> AbstractContextManager[Any]:
        """Ranks exchange gradients with an update's last micro-batch only.

        DDP averages over ranks then; losses are multiplied by the number of ranks, since their weights are global.
        """
        return nullcontext() if self._accelerator.sync_gradients else self._accelerator.no_sync(model)

    def _policy_loss(
        self, scores: Scores, experience: Experience, update: Update, batch: MicroBatch, metrics: MetricSums
    ) -> Tensor:
        old = None if experience.old_logps is None else batch.read_tokens(experience.old_logps)
        importance = missing = None
        correction = self._config.importance_sampling_correction or "none"
        if correction != "none":
            importance, missing = importance_weights(
                scores.logprobs.detach() if old is None else old,
                batch.read_tokens(experience.sampler_logps),
                batch.token_step,
                batch.num_steps,
                level=correction,
                cap=self._config.importance_sampling_cap,
            )
        advantages = batch.read(experience.advantages, experience.level)
        loss, sums = policy_loss(
            self._loss_config,
            scores.logprobs,
            advantages if experience.level == "token" else advantages[batch.token_step],
            batch.read_steps(update.policy_weights),
            batch.token_step,
            old_logps=old,
            ref_logps=None if experience.ref_logps is None else batch.read_tokens(experience.ref_logps),
            entropies=scores.entropies,
            importance=importance,
            importance_missing=missing,
        )
        metrics.add(sums)
        return loss

    def _value_loss(
        self, values: Tensor, experience: Experience, update: Update, batch: MicroBatch, metrics: MetricSums
    ) -> Tensor:
        weights = batch.read_steps(update.value_weights)
        loss, sums = critic_loss(
            self._loss_config,
            values,
            batch.read(experience.returns, experience.level),
            weights[batch.token_step] if experience.level == "token" else weights,
            old_values=batch.read(experience.old_values, experience.level),
        )
        metrics.add(sums)
        return loss

    def _decide(self, experience: Experience, index: int, means: dict[str, float], *, warmup: bool) -> float:
        """Clip the gradients, or take away those that must not be applied; returns the policy's norm."""
        critic = self._head if self._critic is None else self._critic.parameters
        policy_norm, critic_norm = _norm(self._policy), _norm(critic)
        if self._config.uses_critic:
            means["grad_norm/critic"] = critic_norm
        finite = math.isfinite(policy_norm) and math.isfinite(critic_norm) and math.isfinite(means["loss"])
        # Norms and means are equal on all ranks already; agreeing once more costs nothing and rules a split out.
        if experience.failure or any_rank(self._accelerator, not finite):
            self._skip(experience, index, means["loss"], policy_norm, critic_norm)
            _drop([*self._policy, *critic])
            return policy_norm
        self.skipped_in_row = 0
        if self._config.target_kl is not None and means.get("approx_kl", 0.0) > self._config.target_kl:
            experience.policy_stopped = True
        means["policy_stopped"] = float(experience.policy_stopped)
        update = experience.updates[index]
        # Who takes part in no term has gradients of zeros.
        if update.num_value_steps == 0:
            _drop(critic)
        if update.num_policy_steps == 0 and not (self._values_reach_trunk and update.num_value_steps):
            _drop(self._policy)
        if warmup or experience.policy_stopped:
            _drop(self._policy)
        _clip(self._policy, policy_norm, self._config.max_grad_norm)
        _clip(critic, critic_norm, self._config.critic_clip)
        return policy_norm

    def _skip(self, experience: Experience, index: int, loss: float, policy_norm: float, critic_norm: float) -> None:
        self.skipped += 1
        self.skipped_in_row += 1
        if self.skipped_in_row <= self._config.max_skipped_updates:
            return
        if experience.failure:
            raise RuntimeError(
                f"{self.skipped_in_row} updates in a row were skipped; rollout {experience.rollout} had no episode "
                f"that could be used: {experience.failure}"
            )
        tasks = [trajectory.task_id for trajectory in experience.trajectories]
        raise RuntimeError(
            f"{self.skipped_in_row} updates in a row were skipped because the loss or a gradient was not finite, the "
            f"last one update {index} of rollout {experience.rollout} (loss {loss}, gradient norm of the policy "
            f"{policy_norm}, of the critic {critic_norm}); its batch holds the tasks {', '.join(tasks[:8])}"
            f"{' ...' if len(tasks) > 8 else ''}"
        )


def _norm(parameters: Iterable[nn.Parameter]) -> float:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return float(torch.nn.utils.get_total_norm(gradients)) if gradients else 0.0


def _clip(parameters: Iterable[nn.Parameter], norm: float, largest: float) -> None:
    """Scale the gradients down to a norm of `largest`; 0 does not clip."""
    kept = [parameter for parameter in parameters if parameter.grad is not None]
    if largest > 0 and norm > largest and kept:
        torch.nn.utils.clip_grads_with_norm_(kept, largest, torch.tensor(norm))


def _drop(parameters: Iterable[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None
