"""The policy ratio, per token or per step."""

from typing import Literal

import torch
from torch import Tensor

from agent_r1_trainer.losses.tokens import segment_mean

__all__ = ["MAX_LOG_RATIO", "RatioLevel", "log_ratios"]

RatioLevel = Literal["token", "sequence"]
MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to +-20 before the exponential: far outside every clip range, and finite in fp32."""


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
