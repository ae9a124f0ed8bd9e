"""A text whose log-probabilities tell whether a sampler holds the weights that it was sent.

A sync that went wrong (another model, a layer that was left out, an adapter that was not applied) raises nothing by
itself. So after each one every server is asked what it makes of a few random tokens.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from agent_r1_trainer._compat import base_causal_lm, class_forward
from agent_r1_trainer.generation.transformers_generator import evaluation_mode

__all__ = ["Witness", "random_texts", "take_witness"]

_TOKENS = 24
_LIMIT, _LIMIT_16_BITS = 0.01, 0.05
"""In the mean, of log-probabilities relative to their size where that is above 1; the former in float32.

Rounding gives some 1e-6 in float32 and .013 in bfloat16; TF32, which float32 may be on GPUs, rounds eight times finer.
"""


@dataclass(frozen=True, slots=True)
class Witness:
    """A text and what the policy says of it.

    Attributes:
        ids: Its tokens.
        logprobs: Of all but the first, at temperature 1.
        exact: Whether the policy computes in float32.
    """

    ids: list[int]
    logprobs: list[float]
    exact: bool

    def difference(self, found: Sequence[float]) -> float:
        """How far others are from these, in the mean; infinite where one is no number."""
        own, other = torch.tensor(self.logprobs), torch.tensor(list(found))
        apart = (own - other).abs() / own.abs().clamp(min=1.0)
        return float(apart.nan_to_num(nan=float("inf")).mean())

    def fits(self, found: Sequence[float], *, exact: bool) -> bool:
        """Whether what a sampler says of the text is what these weights say, but for rounding.

        Args:
            found: Log-probabilities of all tokens but the first.
            exact: Whether the sampler computes in float32.
        """
        return self.difference(found) <= (_LIMIT if exact and self.exact else _LIMIT_16_BITS)


@torch.no_grad()
def take_witness(policy: nn.Module, tokenizer: PreTrainedTokenizerBase, *, exact: bool) -> Witness:
    """Let the policy read a text of random tokens.

    Args:
        policy: A causal language model, possibly with PEFT adapters, not wrapped by DDP or the like.
        tokenizer: Of the policy.
        exact: Whether it computes in float32.
    """
    model = base_causal_lm(policy)
    config = model.config.get_text_config()
    count = min(_TOKENS, getattr(config, "max_position_embeddings", None) or _TOKENS)
    ids = random_texts(tokenizer, config.vocab_size, [count])[0]
    given = torch.tensor([ids], device=model.device)
    with evaluation_mode(model):
        output = class_forward(model)(model, input_ids=given, attention_mask=torch.ones_like(given), use_cache=False)
    logps = output.logits[0, :-1].float().log_softmax(-1).gather(-1, given[0, 1:, None]).squeeze(-1)
    return Witness(ids, logps.tolist(), exact)


def random_texts(tokenizer: PreTrainedTokenizerBase, vocab_size: int, lengths: Sequence[int]) -> list[list[int]]:
    """Ids that stand for plain text: not those that mark padding, a turn or an image."""
    size = min(vocab_size, len(tokenizer))
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    plain = [token for token in range(size) if token not in special] or list(range(size))
    rng = random.Random(0)
    return [rng.choices(plain, k=length) for length in lengths]
