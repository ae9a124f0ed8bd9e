"""Truncated importance weights between the sampler and the trainer.

The sampler (vLLM, another precision, a KV cache) gives other log-probabilities than the trainer for the same ids. The
loss is an expectation under the trainer's policy, so each token is weighted by the ratio of the two, truncated from
above to bound the variance.
"""

from typing import Literal

import torch
from torch import Tensor

from agent_r1_trainer.losses.ratios import MAX_LOG_RATIO
from agent_r1_trainer.losses.tokens import segment_sum

__all__ = ["ImportanceLevel", "importance_weights"]

ImportanceLevel = Literal["token", "sequence"]


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
