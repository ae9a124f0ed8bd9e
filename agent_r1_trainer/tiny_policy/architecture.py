"""The shape of the tiny policy: a Qwen3 decoder of about 0.18 million parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

__all__ = ["TinyArchitecture", "build_model"]


@dataclass(frozen=True, slots=True)
class TinyArchitecture:
    """Sizes of a small Qwen3 model.

    Two attention layers are the least that can copy a name from its context (one finds the earlier occurrence, one
    reads what followed it); the third pays for itself in two-hop questions.

    Attributes:
        hidden_size: Width of the residual stream, in features.
        layers: Decoder layers.
        heads: Query heads a layer.
        key_value_heads: Key and value heads a layer.
        feed_forward_size: Width of the gated feed-forward layer.
        context: The longest sequence, in tokens.
        initializer_range: Standard deviation of the initial weights.
    """

    hidden_size: int = 64
    layers: int = 3
    heads: int = 4
    key_value_heads: int = 2
    feed_forward_size: int = 192
    context: int = 2048
    initializer_range: float = 0.05


def build_model(architecture: TinyArchitecture, tokenizer: PreTrainedTokenizerBase, *, seed: int) -> Qwen3ForCausalLM:
    """Make an untrained model for `tokenizer`, in float32.

    Args:
        architecture: Its sizes.
        tokenizer: Decides the size of the vocabulary and the ids of end of turn and padding.
        seed: Decides the initial weights; the global generator is left as it was.

    Returns:
        A model in training mode, with tied input and output embeddings.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=architecture.hidden_size,
        intermediate_size=architecture.feed_forward_size,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        num_key_value_heads=architecture.key_value_heads,
        head_dim=architecture.hidden_size // architecture.heads,
        max_position_embeddings=architecture.context,
        initializer_range=architecture.initializer_range,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config).float()
