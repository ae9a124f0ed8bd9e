"""Drawing tokens from logits with one uniform number a token.

A token is found by inverting the cumulative distribution at a uniform number that comes from the row's own generator.
So a row needs one random number a token (not one a vocabulary entry), all of a reply's numbers can be drawn at once,
and what a row samples depends on its seed and its logits alone, never on its neighbours or on a global generator.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agent_r1_trainer.generation.protocol import SamplingParams


def row_uniforms(seeds: Sequence[int], count: int) -> torch.Tensor:
    """Uniform numbers in [0, 1), row i from a generator seeded with `seeds[i]`.

    Returns:
        float64 tensor [len(seeds), count] on the CPU.
    """
    generator = torch.Generator()
    rows = [torch.rand(count, generator=generator.manual_seed(seed), dtype=torch.float64) for seed in seeds]
    return torch.stack(rows) if rows else torch.empty(0, count, dtype=torch.float64)


def truncate_logits(logits: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Set the logits outside the `top_k` and the `top_p` most likely tokens to minus infinity.

    Args:
        logits: [rows, vocabulary].
        top_k: Number of tokens kept, 0 for all. Ties at the border are all kept.
        top_p: The smallest set of most likely tokens that holds at least this probability is kept.

    Returns:
        [rows, vocabulary], a new tensor if anything was cut.
    """
    if 0 < top_k < logits.size(-1):
        border = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < border, float("-inf"))
    if top_p < 1.0:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities  # mass of the strictly more likely tokens
        cut = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= top_p)
        logits = logits.masked_fill(cut, float("-inf"))
    return logits


def sample_tokens(
    logits: torch.Tensor, sampling: SamplingParams, uniforms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token a row.

    Args:
        logits: fp32 [rows, vocabulary].
        sampling: Temperature and truncation.
        uniforms: float64 [rows], one number in [0, 1) a row; ignored by greedy sampling.

    Returns:
        Token ids, int64 [rows], and their log-probabilities under the sampled distribution, fp32 [rows].
    """
    if sampling.greedy:
        tokens = logits.argmax(dim=-1)
        return tokens, logits.log_softmax(dim=-1).gather(-1, tokens[:, None]).squeeze(-1)
    scaled = truncate_logits(logits / sampling.temperature, sampling.top_k, sampling.top_p)
    logprobs = scaled.log_softmax(dim=-1)
    cumulative = logprobs.double().exp().cumsum(dim=-1)
    # Scaling by the total keeps the target inside the distribution when its sum rounds below 1. `right=True` steps
    # over entries of probability 0, whose cumulative value equals their predecessor's.
    target = uniforms[:, None] * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, target, right=True).squeeze(-1).clamp_(max=logits.size(-1) - 1)
    return tokens, logprobs.gather(-1, tokens[:, None]).squeeze(-1)
