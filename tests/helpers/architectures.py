"""Tiny models of many architectures, with weights large enough that a wrong logit is seen."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

VOCABULARY = 60
_SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_MLA = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
_HYBRID = {
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "head_dim": 8, "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip

# What each has besides: heads that are more than an embedding, scaled and capped logits, experts, windows, recurrence.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {"head_dim": 8},
    "mistral": {"sliding_window": 8},
    "gemma2": {"head_dim": 8, "sliding_window": 8, "final_logit_softcapping": 2.0},
    "gemma3_text": {"head_dim": 8, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8},
    "cohere": {"logit_scale": 0.3},
    "cohere2": {"logit_scale": 0.3, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "granite": {"logits_scaling": 3.0},
    "phi": {},  # a bias in the head
    "phi3": {},
    "gptj": {"rotary_dim": 4},
    "gpt2": {},
    "gpt_neox": {},
    "gpt_neo": {"num_layers": 2, "num_heads": 4, "window_size": 8, "attention_types": [[["global", "local"], 1]]},
    "opt": {"ffn_dim": 32, "word_embed_proj_dim": 16},  # hidden states of another width than hidden_size
    "bloom": {},
    "olmo2": {},
    "mixtral": _EXPERTS,
    "qwen3_moe": {**_EXPERTS, "head_dim": 8},
    "deepseek_v3": {
        **_MLA, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 1, "topk_group": 1,
        "first_k_dense_replace": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    },
    "gpt_oss": {**_EXPERTS, "head_dim": 8, "sliding_window": 8},
    "llama4_text": {**_EXPERTS, "head_dim": 8, "intermediate_size_mlp": 32},
    "qwen3_next": {**_HYBRID, **_EXPERTS, "shared_expert_intermediate_size": 16},
    "modernbert-decoder": {"local_attention": 8, "num_hidden_layers": 3},
    "trocr": {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 32},
    "mamba": {"state_size": 8},
    "rwkv": {"attention_hidden_size": 32},
    "moshi": {"sliding_window": 8, "head_dim": 8, "ffn_dim": 64},
}  # fmt: skip


def make_architecture(kind: str, **changes: Any) -> PreTrainedModel:
    """A model of a few thousand parameters, in evaluation mode, without dropout."""
    torch.manual_seed(0)
    config = type(AutoConfig.for_model(kind))(**_SIZES | ARCHITECTURES.get(kind, {}) | changes)
    for name, value in config.to_dict().items():
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.2)
            if getattr(module, "bias", None) is not None:
                nn.init.normal_(module.bias, std=0.3)
    return model
