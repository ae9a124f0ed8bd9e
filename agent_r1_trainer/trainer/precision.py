"""Weights that nobody trains, in the 16 bits that a GPU computes in, where that changes next to nothing."""

from __future__ import annotations

import logging

import torch
from torch import Tensor, nn

from agent_r1_trainer._compat import base_causal_lm, class_forward
from agent_r1_trainer.generation.transformers_generator import evaluation_mode

__all__ = ["frozen_dtype", "store_frozen"]

logger = logging.getLogger(__name__)

_LIMIT = 1e-3
"""Nats of the KL that rounding may bring into the first update."""


def frozen_dtype(device: str, *, bf16: bool) -> torch.dtype:
    """What the weights of references, and those under adapters, are kept in.

    Args:
        device: Kind of device that computes.
        bf16: Whether it computes in bfloat16, to which it would round float32 weights at every use.
    """
    return torch.bfloat16 if device == "cuda" and bf16 else torch.float32


def store_frozen(model: nn.Module, dtype: torch.dtype, name: str) -> bool:
    """Round a model's frozen float32 weights, unless its distributions move by more than a KL of 1e-3 in the mean.

    Args:
        model: A causal language model, possibly with adapters; what it trains stays as it is.
        dtype: To round to; float32 leaves all as it is.
        name: Of the model, in a warning.

    Returns:
        Whether weights were rounded.
    """
    frozen = [p for p in model.parameters() if not p.requires_grad and p.dtype == torch.float32]
    if dtype == torch.float32 or not frozen:
        return False
    before, whole = _distributions(model, dtype), [parameter.data for parameter in frozen]
    for parameter in frozen:
        parameter.data = parameter.data.to(dtype)
    gap = float((before.exp() * (before - _distributions(model, dtype))).sum(-1).mean())
    if gap <= _LIMIT:
        return True
    for parameter, data in zip(frozen, whole, strict=True):
        parameter.data = data
    logger.warning(
        "the frozen weights of the %s stay in float32: in %s its distributions would be off by a KL of %.2g (limit %g)",
        name, str(dtype).removeprefix("torch."), gap, _LIMIT,
    )  # fmt: skip
    return False


@torch.no_grad()
def _distributions(model: nn.Module, dtype: torch.dtype) -> Tensor:
    """Log-probabilities [2, 16, vocabulary] after each of some random tokens, computed as training computes."""
    inner = base_causal_lm(model)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(inner.config.get_text_config().vocab_size, (2, 16), generator=generator).to(inner.device)
    with evaluation_mode(inner), torch.autocast(inner.device.type, dtype):
        return class_forward(inner)(inner, input_ids=ids, use_cache=False).logits.float().log_softmax(-1)
