"""The loss of a micro-batch, whole, and then the terms that it is made of.

Its terms are PPO's clipped surrogate, with asymmetric bounds and an optional dual clip, of a ratio per token or step;
the KL divergence to a reference policy (`kl.py`); the critic's loss.

Tokens are weighted for what the sampler (vLLM, another precision, a KV cache) does differently: it gives other
log-probabilities than the trainer for the same ids. The loss is an expectation under the trainer's policy, so each
token has the ratio of the two as its weight, truncated from above to bound the variance.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from agent_r1_trainer.losses.kl import KLEstimator, check_loss_estimator, kl_in_loss
from agent_r1_trainer.losses.metrics import MetricSums
from agent_r1_trainer.losses.tokens import MAX_LOG_RATIO, segment_mean, segment_sum, token_weights

__all__ = [
    "ImportanceLevel",
    "LossConfig",
    "RatioLevel",
    "clipped_surrogate",
    "critic_loss",
    "importance_weights",
    "log_ratios",
    "policy_loss",
    "value_loss",
]

RatioLevel = Literal["token", "sequence"]
ImportanceLevel = Literal["token", "sequence"]


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


def log_ratios(logps: Tensor, old_logps: Tensor, token_step: Tensor, num_steps: int, level: RatioLevel) -> Tensor:
    """Logarithm of the policy ratio that each token is weighted with, with the gradient of its level.

    With ``z_j = logp_j - old_logp_j``: the token level is ``z_j``. The sequence level (GSPO) is ``mean_j z_j`` over
    the step, the same number for all its tokens, and its gradient is carried by the token's own log-probability:
    ``rho_j = sg[rho] exp(logp_j - sg[logp_j])``. The mean over a step's tokens then has exactly the gradient of rho.
    Where the clamp to +-20 binds, the gradient is 0 at both levels.

    Args:
        logps: [M] log-probabilities of the response tokens under the policy, fp32, with gradient.
        old_logps: [M] the same under the policy that the batch was collected with, constant.
        token_step: [M] int64, step of each token.
        num_steps: Number of steps.
        level: ``"token"`` or ``"sequence"``.

    Returns:
        [M] log-ratios.

    Raises:
        ValueError: Unknown level.
    """
    z = logps - old_logps
    if level == "token":
        return z.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if level == "sequence":
        mean = segment_mean(z.detach(), token_step, num_steps)
        carrier = logps - logps.detach()
        inside = (mean.abs() < MAX_LOG_RATIO)[token_step]
        return mean.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)[token_step] + torch.where(inside, carrier, 0.0 * carrier)
    raise ValueError(f"the ratio level must be 'token' or 'sequence', got {level!r}")


def clipped_surrogate(
    log_ratio: Tensor,
    advantages: Tensor,
    *,
    epsilon_low: float,
    epsilon_high: float,
    dual_clip: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss of each token: ``max(-rho A, -clip(rho, 1 - low, 1 + high) A)``.

    With a dual clip ``c > 1`` (Ye et al. 2020) the loss of a negative advantage is at most ``-c A``, so that a token
    whose probability grew a lot cannot dominate the batch: ``min(max(-rho A, -clip(rho) A), -c A)`` for ``A < 0``.

    Args:
        log_ratio: [M] from `log_ratios`.
        advantages: [M] the advantage of each token's step.
        epsilon_low: The ratio is held above ``1 - epsilon_low``.
        epsilon_high: The ratio is held below ``1 + epsilon_high``.
        dual_clip: c, or None for no dual clip.

    Returns:
        The loss [M], and three masks [M] of tokens without gradient: cut at the lower bound (only possible for A <
        0), cut at the upper bound (only for A > 0), cut by the dual clip.
    """
    ratio = log_ratio.exp()
    loss = torch.maximum(-ratio * advantages, -ratio.clamp(1.0 - epsilon_low, 1.0 + epsilon_high) * advantages)
    low = (ratio < 1.0 - epsilon_low) & (advantages < 0)
    high = (ratio > 1.0 + epsilon_high) & (advantages > 0)
    if dual_clip is None:
        return loss, low, high, torch.zeros_like(low)
    bound = -dual_clip * advantages
    dual = (advantages < 0) & (loss > bound)
    return torch.where(dual, bound, loss), low, high, dual


def importance_weights(
    old_logps: Tensor,
    sampler_logps: Tensor,
    token_step: Tensor,
    num_steps: int,
    *,
    level: ImportanceLevel = "token",
    cap: float = 2.0,
) -> tuple[Tensor, Tensor]:
    """Weight of each token, constant in the gradient.

    With ``d_j = old_logp_j - sampler_logp_j``: token level ``min(exp(d_j), C)``, sequence level ``min(exp(sum_j d_j),
    C)`` for all tokens of the step.

    Args:
        old_logps: [M] the trainer's log-probabilities under the weights that sampled.
        sampler_logps: [M] the sampler's; NaN where it gave none.
        token_step: [M] step of each token.
        num_steps: S.
        level: ``"token"`` or ``"sequence"``.
        cap: C, the largest weight.

    Returns:
        The weights [M], and a mask [M] of tokens whose difference is not finite: such a token counts as weight 1 (a
        factor of 1 in its sequence).

    Raises:
        ValueError: Unknown level.
    """
    if level not in ("token", "sequence"):
        raise ValueError(f"the level of importance weights must be 'token' or 'sequence', got {level!r}")
    difference = (old_logps - sampler_logps).detach()
    missing = ~torch.isfinite(difference)
    difference = torch.where(missing, torch.zeros_like(difference), difference)
    if level == "sequence":
        difference = segment_sum(difference, token_step, num_steps)[token_step]
    return difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().clamp(max=cap), missing


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


def value_loss(
    values: Tensor, returns: Tensor, *, old_values: Tensor | None = None, clip: float | None = None
) -> tuple[Tensor, Tensor]:
    """Squared error of each value, optionally clipped around the value at collection time.

    ``0.5 max((V - R)^2, (V_old + clamp(V - V_old, -c, c) - R)^2)``; without a clip ``0.5 (V - R)^2``.

    Args:
        values: [n] V(s_t), read at the last prompt token of each step or where each token is predicted, with gradient.
        returns: [n] targets, in the same units.
        old_values: [n] values when the batch was collected; needed for a clip.
        clip: c, in the same units; None for no clip.

    Returns:
        The loss [n] and a mask [n] of the values whose clipped error was the larger one.

    Raises:
        ValueError: A clip without ``old_values``.
    """
    error = (values - returns) ** 2
    if clip is None:
        return 0.5 * error, torch.zeros_like(values, dtype=torch.bool)
    if old_values is None:
        raise ValueError("a value clip needs old_values")
    clipped = (old_values + (values - old_values).clamp(-clip, clip) - returns) ** 2
    return 0.5 * torch.maximum(error, clipped), clipped > error
