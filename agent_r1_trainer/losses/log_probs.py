"""Log-probabilities of sampled tokens and entropies of their distributions, in the memory of their logits alone.

With 150,000 words the logits of a thousand tokens take 0.6 GB, and every intermediate result of their size as much
again. So a block of rows is read at a time, nothing of the logits' size is kept for the backward pass but themselves,
and where nobody else reads them their gradient takes their place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["token_log_probs"]

_BLOCK = 1 << 22
"""Logits that intermediate results are held of at a time; 16 MB in fp32."""
_VIEWS = ("SelectBackward0", "SliceBackward0", "SqueezeBackward1", "UnsafeViewBackward0", "ViewBackward0")
_PRODUCTS = ("AddmmBackward0", "MmBackward0")


def token_log_probs(
    logits: Tensor, ids: Tensor, temperature: float = 1.0, *, entropy: bool = False, scratch: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Log-probability of each sampled id and the entropy of its distribution, in fp32 (of float64 in float64).

    Args:
        logits: [M, V] the logits that predict each token (those of the position before it).
        ids: [M] int64, the sampled ids.
        temperature: The temperature that they were sampled at.
        entropy: Whether the entropies are wanted.
        scratch: Nobody reads the logits afterwards, so that the backward pass may write over them.

    Returns:
        Log-probabilities [M], and entropies [M] (nats) or None; both with gradient, once differentiable.
    """
    scratch = scratch and _product(logits)
    logps, entropies = _TokenLogProbs.apply(logits, ids, temperature, entropy, scratch)
    return logps, entropies if entropy else None


class _TokenLogProbs(torch.autograd.Function):
    """With p = softmax(s) and s = logits / T: d log p_id = 1[id] - p, and dH = -p (log p + H), both over T."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, ids: Tensor, temperature: float, entropy: bool, scratch: bool
    ) -> tuple[Tensor, Tensor]:
        dtype = torch.promote_types(logits.dtype, torch.float32)
        logps, normalisers = (torch.empty(len(ids), dtype=dtype, device=logits.device) for _ in range(2))
        entropies = torch.empty_like(logps if entropy else logps[:0])
        for rows in _blocks(logits):
            scores = _scores(logits[rows], dtype, temperature)
            normalisers[rows] = torch.logsumexp(scores, dim=-1)
            logps[rows] = scores.gather(-1, ids[rows, None]).squeeze(-1) - normalisers[rows]
            if entropy:
                # A banned token (a score of -inf) has p = 0, and 0 times a finite floor is 0, not NaN.
                log_p = scores - normalisers[rows, None]
                entropies[rows] = -log_p.exp().mul_(log_p.clamp_(min=torch.finfo(dtype).min)).sum(-1)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, ids, normalisers, entropies)
        ctx.temperature, ctx.scratch = temperature, scratch
        return logps, entropies

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None, None, None]:
        of_logps, of_entropies = gradients
        if of_logps is None and of_entropies is None:
            return None, None, None, None, None
        logits, ids, normalisers, entropies = ctx.saved_tensors
        # Still the same tensor for autograd, which would notice if anybody else had kept the logits to read them.
        result = logits.detach() if ctx.scratch else torch.empty_like(logits)
        for rows in _blocks(logits):
            log_p = _scores(logits[rows], normalisers.dtype, ctx.temperature) - normalisers[rows, None]
            p = log_p.exp()
            if of_entropies is not None:
                log_p.clamp_(min=torch.finfo(log_p.dtype).min).add_(entropies[rows, None])
                log_p.mul_(p).mul_(-of_entropies[rows, None])
            if of_logps is not None:
                p.mul_(-of_logps[rows, None]).scatter_add_(-1, ids[rows, None], of_logps[rows, None])
                gradient = p if of_entropies is None else p.add_(log_p)
            else:
                gradient = log_p
            result[rows] = gradient if ctx.temperature == 1.0 else gradient.div_(ctx.temperature)
        return result, None, None, None, None


def _blocks(logits: Tensor) -> list[slice]:
    size = max(_BLOCK // max(logits.size(-1), 1), 1)
    return [slice(first, first + size) for first in range(0, len(logits), size)]


def _scores(block: Tensor, dtype: torch.dtype, temperature: float) -> Tensor:
    block = block.to(dtype)
    return block if temperature == 1.0 else block / temperature


def _product(logits: Tensor) -> bool:
    """Whether logits come straight from a matrix product, whose backward pass does not read them."""
    node: Any = logits.grad_fn
    while node is not None and node.name() in _VIEWS:
        node = node.next_functions[0][0]
    return node is not None and node.name() in _PRODUCTS
