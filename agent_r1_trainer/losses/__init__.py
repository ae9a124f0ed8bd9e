"""Losses of step-level policy optimisation: pure functions on fp32 tensors.

Tokens are flat vectors [M] over the response tokens of a micro-batch, steps are vectors [S], and ``token_step`` [M]
maps one to the other; a ratio is reduced by step, never by row.
"""

from agent_r1_trainer.losses.kl import KLEstimator, check_loss_estimator, kl_in_loss, kl_in_reward
from agent_r1_trainer.losses.log_probs import token_log_probs
from agent_r1_trainer.losses.metrics import MetricSums
from agent_r1_trainer.losses.policy import (
    ImportanceLevel,
    LossConfig,
    RatioLevel,
    clipped_surrogate,
    critic_loss,
    importance_weights,
    log_ratios,
    policy_loss,
    value_loss,
)
from agent_r1_trainer.losses.tokens import (
    MAX_LOG_RATIO,
    Aggregation,
    segment_lengths,
    segment_mean,
    segment_sum,
    step_weights,
    token_weights,
)

__all__ = [
    "MAX_LOG_RATIO",
    "Aggregation",
    "ImportanceLevel",
    "KLEstimator",
    "LossConfig",
    "MetricSums",
    "RatioLevel",
    "check_loss_estimator",
    "clipped_surrogate",
    "critic_loss",
    "importance_weights",
    "kl_in_loss",
    "kl_in_reward",
    "log_ratios",
    "policy_loss",
    "segment_lengths",
    "segment_mean",
    "segment_sum",
    "step_weights",
    "token_log_probs",
    "token_weights",
    "value_loss",
]
