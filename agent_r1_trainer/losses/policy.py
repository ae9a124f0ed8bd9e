"""The whole loss of a micro-batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from agent_r1_trainer.losses.kl import KLEstimator, check_loss_estimator, kl_in_loss
from agent_r1_trainer.losses.metrics import MetricSums
from agent_r1_trainer.losses.ratios import MAX_LOG_RATIO, RatioLevel, log_ratios
from agent_r1_trainer.losses.surrogate import clipped_surrogate
from agent_r1_trainer.losses.tokens import token_weights
from agent_r1_trainer.losses.value import value_loss

__all__ = ["LossConfig", "critic_loss", "policy_loss"]


@dataclass(frozen=True, slots=True)
class LossConfig:
    """Settings of the loss.

    Attributes:
        ratio_level: ``"token"`` or ``"sequence"``.
        epsilon_low: Lower clip of the ratio.
        epsilon_high: Upper clip of the ratio.
        dual_clip: Bound ``c > 1`` on the loss of negative advantages, or None.
        beta: Weight of the KL to the reference in the loss.
        kl_estimator: ``"k2"`` or ``"k3"``.
        entropy_coef: Weight of the entropy bonus.
        value_clip: Clip of the value around its old one, in the units of the critic, or None.
    """

    ratio_level: RatioLevel = "sequence"
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    dual_clip: float | None = None
    beta: float = 0.0
    kl_estimator: KLEstimator = "k3"
    entropy_coef: float = 0.0
    value_clip: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A setting out of its range; ``kl_estimator="k1"``, with the reason.
        """
        check_loss_estimator(self.kl_estimator)
        if self.ratio_level not in ("token", "sequence"):
            raise ValueError(f"ratio_level must be 'token' or 'sequence', got {self.ratio_level!r}")
        if not 0.0 <= self.epsilon_low <= 1.0 or self.epsilon_high < 0.0:
            raise ValueError(
                f"need 0 <= epsilon_low <= 1 and epsilon_high >= 0, got {self.epsilon_low}, {self.epsilon_high}"
            )
        if self.dual_clip is not None and self.dual_clip <= 1.0:
            raise ValueError(
                f"dual_clip must be above 1 (a bound on the ratio of negative advantages), got {self.dual_clip}"
            )
        if self.value_clip is not None and self.value_clip <= 0.0:
            raise ValueError(f"value_clip must be positive, got {self.value_clip}")


def policy_loss(
    config: LossConfig,
    logps: Tensor,
    advantages: Tensor,
    step_weights: Tensor,
    token_step: Tensor,
    *,
    old_logps: Tensor | None = None,
    ref_logps: Tensor | None = None,
    entropies: Tensor | None = None,
    importance: Tensor | None = None,
    importance_missing: Tensor | None = None,
) -> tuple[Tensor, MetricSums]:
    """Policy loss of a micro-batch: surrogate + beta KL - entropy bonus.

    ``sum_i w_i mean_j (importance_ij surrogate_ij + beta kl_ij - entropy_coef H_ij)``. The weights carry the global
    denominators, so that the losses of the micro-batches and ranks of one mini-batch just ADD up (under DDP, which
    averages over ranks, multiply by the world size).

    M is the number of response tokens of the micro-batch and S its number of steps.

    Args:
        config: The settings.
        logps: [M] log-probabilities under the policy, with gradient. Used in fp32.
        advantages: [M], the advantage of each token; ``per_step[token_step]`` where credit is assigned to steps.
        step_weights: [S] from `step_weights`; 0 takes a step out.
        token_step: [M] int64, step of each token.
        old_logps: [M] at collection; None means that these are the current ones (one update per batch).
        ref_logps: [M] of the reference; needed if ``beta`` is not 0, else only reported.
        entropies: [M] entropy of the next-token distribution at each token; needed if ``entropy_coef`` is not 0, with
            gradient then, else only reported.
        importance: [M] from `importance_weights`; multiplies the surrogate only.
        importance_missing: [M] the mask from `importance_weights`, to be counted.

    Returns:
        The scalar loss, and metrics: ``loss/policy`` (the surrogate alone), ``ratio``, ``approx_kl`` (k3 of the old
        policy, for a target-KL stop), ``clip_ratio/low_mean``, ``clip_ratio/high_mean``, ``clip_ratio/region_mean``,
        ``clip_ratio/dual_mean``; ``kl``, ``entropy``, ``importance/mean`` and ``importance/missing`` (share of tokens
        without a usable log-probability of the sampler) where given; and the maximum ``log_ratio/max``.

    Raises:
        ValueError: ``beta`` without ``ref_logps`` or ``entropy_coef`` without ``entropies``.
    """
    if config.beta and ref_logps is None:
        raise ValueError("beta is not 0: ref_logps is needed")
    if config.entropy_coef and entropies is None:
        raise ValueError("entropy_coef is not 0: entropies are needed")
    logps = logps.float()
    old = logps.detach() if old_logps is None else old_logps.detach().float()
    weights = token_weights(step_weights.float(), token_step)
    metrics = MetricSums()
    log_ratio = log_ratios(logps, old, token_step, step_weights.numel(), config.ratio_level)
    surrogate, low, high, dual = clipped_surrogate(
        log_ratio,
        advantages.float(),
        epsilon_low=config.epsilon_low,
        epsilon_high=config.epsilon_high,
        dual_clip=config.dual_clip,
    )
    if importance is not None:
        surrogate = surrogate * importance.detach().float()
        metrics.record("importance/mean", importance, weights)
    if importance_missing is not None:
        metrics.record("importance/missing", importance_missing, weights)
    metrics.record("loss/policy", surrogate, weights)
    per_token = surrogate
    if ref_logps is not None:
        kl = kl_in_loss(logps, ref_logps.detach().float(), config.kl_estimator)
        metrics.record("kl", kl, weights)
        if config.beta:
            per_token = per_token + config.beta * kl
    if entropies is not None:
        metrics.record("entropy", entropies, weights)
        if config.entropy_coef:
            per_token = per_token - config.entropy_coef * entropies.float()
    with torch.no_grad():
        z = logps - old
        metrics.record("ratio", log_ratio.exp(), weights)
        bounded = z.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        metrics.record("approx_kl", bounded.exp() - 1.0 - bounded, weights)
        metrics.record("clip_ratio/low_mean", low, weights)
        metrics.record("clip_ratio/high_mean", high, weights)
        metrics.record("clip_ratio/region_mean", low | high, weights)
        metrics.record("clip_ratio/dual_mean", dual, weights)
        metrics.record_max("log_ratio/max", z[weights != 0].abs())
    return (weights * per_token).sum(), metrics


def critic_loss(
    config: LossConfig,
    values: Tensor,
    returns: Tensor,
    weights: Tensor,
    *,
    old_values: Tensor | None = None,
) -> tuple[Tensor, MetricSums]:
    """Value loss of a micro-batch, ``sum_i w_i loss_i``.

    Args:
        config: The settings.
        values: [n] with gradient: one a step, or one a response token.
        returns: [n] targets.
        weights: [n] ``1 / n`` with the n of the mini-batch on all ranks, 0 for a filler.
        old_values: [n] at collection; needed with a clip.

    Returns:
        The scalar loss (not yet multiplied by a value coefficient), and metrics ``loss/value`` and
        ``clip_ratio/value``.
    """
    weights = weights.float()
    old = None if old_values is None else old_values.detach().float()
    loss, clipped = value_loss(values.float(), returns.detach().float(), old_values=old, clip=config.value_clip)
    metrics = MetricSums()
    metrics.record("loss/value", loss, weights)
    metrics.record("clip_ratio/value", clipped, weights)
    return (weights * loss).sum(), metrics
