"""Log-probabilities and entropies of sampled tokens."""

import torch
from torch import Tensor

__all__ = ["token_log_probs"]


def token_log_probs(logits: Tensor, ids: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Log-probability of each sampled id and the entropy of its distribution, in fp32.

    Args:
        logits: [M, V] the logits that predict each token (those of the position before it).
        ids: [M] int64, the sampled ids.
        temperature: The temperature that they were sampled at.

    Returns:
        Log-probabilities [M] and entropies [M] (nats), both with gradient.
    """
    scores = logits.float() / temperature
    normaliser = torch.logsumexp(scores, dim=-1)
    logps = scores.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - normaliser
    # H = log Z - sum p s. A banned token (a score of -inf) has p = 0, and 0 times a finite floor is 0, not NaN.
    floor = torch.finfo(scores.dtype).min
    entropies = normaliser - (torch.softmax(scores, dim=-1) * scores.clamp(min=floor)).sum(-1)
    return logps, entropies
