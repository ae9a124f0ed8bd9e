"""Log-probabilities and entropies of sampled tokens."""

import torch
from torch import Tensor

__all__ = ["token_log_probs"]


def token_log_probs(
    logits: Tensor, ids: Tensor, temperature: float = 1.0, *, entropy_gradient: bool = True
) -> tuple[Tensor, Tensor]:
    """Log-probability of each sampled id and the entropy of its distribution, in fp32.

    Args:
        logits: [M, V] the logits that predict each token (those of the position before it).
        ids: [M] int64, the sampled ids.
        temperature: The temperature that they were sampled at.
        entropy_gradient: Whether the entropies have a gradient. It costs another [M, V] in memory, so leave it out
            where they are only reported.

    Returns:
        Log-probabilities [M], with gradient, and entropies [M] (nats).
    """
    scores = logits.float() / temperature
    normaliser = torch.logsumexp(scores, dim=-1)
    logps = scores.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - normaliser
    # H = log Z - sum p s. A banned token (a score of -inf) has p = 0, and 0 times a finite floor is 0, not NaN.
    floor = torch.finfo(scores.dtype).min
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropies = normaliser - (torch.softmax(scores, dim=-1) * scores.clamp(min=floor)).sum(-1)
    return logps, entropies
