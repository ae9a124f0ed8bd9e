"""Where merging steps into one sequence, or leaving padding out, would change the loss."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

__all__ = ["merge_obstacle", "needs_padding_mask", "reads_rows_end_to_end"]

_CAUSAL_ATTENTION = {None, "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"}
_BOUNDED_ATTENTION = {"flash_attention_2", "flash_attention_3"}
"""Implementations that are told by `cu_seq_lens` where each of several rows in one begins."""
_STATIC_ROPE = {"default", "linear", "yarn", "llama3", "proportional"}


def merge_obstacle(config: Any, model: nn.Module | None = None) -> str | None:
    """Say why merged and unmerged steps would give different losses, or None where merging is exact.

    Merging needs each position's output to depend on the tokens before it only, and in the same way however long the
    sequence gets: causal full attention, static rotary embeddings, no dropout, no loss over a row's tokens together.

    Args:
        config: A transformers configuration (``model.config``).
        model: The model as it will be trained, adapters attached. If given, its modules decide about dropout (which may
            have been disabled after loading); otherwise the configuration does.

    Returns:
        The reason, to be logged, or None.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return (
        _attention_obstacle(text)
        or _rope_obstacle(text)
        or (_config_dropout(text) if model is None else _module_dropout(model))
        or _router_obstacle(text)
    )


def needs_padding_mask(config: Any) -> bool:
    """Whether a model must be told where a row's padding on the right begins, for the positions before it.

    Not where each position reads those before it alone, as attention over windows, recurrences and convolutions of
    causal models do too: what follows is never seen. Without a mask, attention takes the kernel for causal rows, and
    keys and values are not copied for every head that reads them.

    Args:
        config: A transformers configuration (``model.config``).
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return _sees_what_follows(text) or getattr(text, "_attn_implementation", None) not in _CAUSAL_ATTENTION


def reads_rows_end_to_end(config: Any, trunk: nn.Module) -> bool:
    """Whether a trunk can read rows one behind the other, as a single row without padding.

    Attention must be told where each begins, positions must be given, and nothing else (a recurrence, say) may pass
    from one to the next. What a trunk's class says of that itself, its caller asks.

    Args:
        config: A transformers configuration (``model.config``).
        trunk: What computes hidden states, a module of transformers.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    if getattr(text, "_attn_implementation", None) not in _BOUNDED_ATTENTION:
        return False
    arguments = inspect.signature(trunk.forward).parameters
    passes_on = any(argument.kind is argument.VAR_KEYWORD for argument in arguments.values())
    return passes_on and "position_ids" in arguments and not (_attention_obstacle(text) or _rope_obstacle(text))


def _sees_what_follows(config: Any) -> bool:
    return bool(
        getattr(config, "is_encoder_decoder", False)
        or getattr(config, "is_causal", True) is False
        or getattr(config, "use_bidirectional_attention", None) in (True, "all")
    )


def _attention_obstacle(config: Any) -> str | None:
    if _sees_what_follows(config):
        return "its attention is not causal"
    layers = set(getattr(config, "layer_types", None) or [])
    other = sorted(layers - {"full_attention"})
    if other:
        return f"its layers are not all full attention ({', '.join(other)})"
    window = getattr(config, "sliding_window", None)
    if window and getattr(config, "use_sliding_window", True) and not layers:
        return f"it uses a sliding window of {window}"
    if getattr(config, "attention_chunk_size", None) and not layers:
        return "it uses chunked attention"
    implementation = getattr(config, "_attn_implementation", None)
    if implementation not in _CAUSAL_ATTENTION:
        return f"its attention implementation is {implementation!r}"
    return None


def _rope_obstacle(config: Any) -> str | None:
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(parameters, Mapping):
        return None
    nested = [value for value in parameters.values() if isinstance(value, Mapping)]
    for entry in nested or [parameters]:
        kind = entry.get("rope_type", entry.get("type", "default"))
        if kind not in _STATIC_ROPE:
            return f"its rotary embedding ({kind}) depends on the length of the sequence"
    return None


def _config_dropout(config: Any) -> str | None:
    for name, value in config.to_dict().items():
        if ("drop" in name or "pdrop" in name) and isinstance(value, float) and value > 0.0:
            return f"its dropout is on ({name}={value})"
    return None


def _module_dropout(model: nn.Module) -> str | None:
    for path, module in model.named_modules():
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0.0:
            return f"its dropout is on ({path}.p={module.p})"
        for name, value in vars(module).items():
            if "dropout" in name and isinstance(value, float) and value > 0.0:
                return f"its dropout is on ({path}.{name}={value})"
    return None


def _router_obstacle(config: Any) -> str | None:
    if getattr(config, "output_router_logits", False) and getattr(config, "router_aux_loss_coef", 0.0):
        return "its router has an auxiliary loss over all tokens of a row"
    return None
