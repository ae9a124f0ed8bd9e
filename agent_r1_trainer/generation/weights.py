"""The policy's weights as another program loads them: without a value head, adapters merged, under a model's own names.

A sampler that is no part of this process gets them after every round of updates.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from agent_r1_trainer._compat import SavedForm, base_causal_lm, is_peft_model

__all__ = ["adapted_ends", "merged_weights", "untied", "weights_mark"]

_OWN = "value_head"  # of this package's scoring; no sampler has it


def merged_weights(
    policy: nn.Module, dtype: torch.dtype | None = None, *, as_saved: bool = False
) -> Generator[tuple[str, Tensor]]:
    """Yield the weights of a policy, adapters merged into a copy of one layer at a time.

    What the policy computes with does not change by a bit: to add an adapter and subtract it again would round.

    Args:
        policy: A causal language model, possibly with PEFT adapters, not wrapped by DDP or the like.
        dtype: What floating point parameters are cast to; None leaves them.
        as_saved: Give them as a folder of the model has them, from which they differ where one of both fuses them.

    Yields:
        Names as in the model without adapters, and tensors; what is tied comes once. Buffers that saved models hold
        come too, as they are: the balance of experts is such a one. A tensor that is not a copy changes when the policy
        is trained.

    Raises:
        ValueError: Adapters lie on quantised weights, into which nothing can be merged.
    """
    model = base_causal_lm(policy)
    form = SavedForm(model, [name for name, _ in _once(_walk(model, "", merge=False))]) if as_saved else None
    for name, own in _once(_walk(model, "")):
        cast = dtype is not None and isinstance(own, nn.Parameter) and own.is_floating_point()
        tensor = own.data.to(dtype) if cast else own.data
        yield from ((name, tensor),) if form is None else form.take(name, tensor).items()


def adapted_ends(policy: nn.Module) -> list[str]:
    """Which of a policy's embeddings and head PEFT has put something of its own in place of."""
    base = base_causal_lm(policy)
    ends = {"embeddings": base.get_input_embeddings(), "head": base.get_output_embeddings()}
    marks = ("base_layer", "modules_to_save")
    return [name for name, module in ends.items() if any(hasattr(module, mark) for mark in marks)]


def untied(policy: nn.Module) -> str:
    """Say why no tied model can be what a policy has become, whose embeddings and head were one; empty where it can."""
    config = base_causal_lm(policy).config.get_text_config(decoder=True)
    if not is_peft_model(policy) or not config.tie_word_embeddings:
        return ""
    adapters: dict[str, Any] = policy.peft_config  # type: ignore[assignment]
    together = all(getattr(adapter, "ensure_weight_tying", False) for adapter in adapters.values())
    ends = adapted_ends(policy)
    if together or not ends:
        return ""
    return (
        f"embeddings and head are one in a model of its kind, and adapters change its {' and its '.join(ends)} "
        "otherwise than the other. Set ensure_weight_tying=True in the LoraConfig, or leave them out of target_modules "
        "and modules_to_save"
    )


def weights_mark(policy: nn.Module) -> tuple[int, ...]:
    """Something that changes when an optimizer or a loaded checkpoint changes the trainable weights in place."""
    return tuple(parameter._version for parameter in policy.parameters() if parameter.requires_grad)


def _once(named: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Leave out what came under another name already."""
    seen: set[Tensor] = set()
    for name, tensor in named:
        if tensor not in seen:
            seen.add(tensor)
            yield name, tensor


def _walk(module: nn.Module, prefix: str, *, merge: bool = True) -> Iterator[tuple[str, Tensor]]:
    """What a saved model holds of a module; where PEFT put something of its own in place of a layer, the merged layer.

    Args:
        module: The module.
        prefix: Of the names.
        merge: False yields such a layer without its adapters, which costs nothing and has the same names.

    Yields:
        Names, and parameters or buffers.
    """
    if hasattr(module, "token_adapter") and hasattr(module, "original_module"):
        yield from _walk(module.token_adapter, prefix, merge=merge)  # type: ignore[arg-type]
        return
    if hasattr(module, "modules_to_save") and hasattr(module, "original_module"):
        copies = dict(module.modules_to_save.named_children())  # type: ignore[union-attr]
        active = next((name for name in getattr(module, "active_adapters", ()) if name in copies), next(iter(copies)))
        yield from _walk(copies[active], prefix, merge=merge)
        return
    if hasattr(module, "base_layer") and hasattr(module, "merge"):
        with _merged(module) if merge else nullcontext(module.get_base_layer()) as layer:  # type: ignore[operator]
            for name, parameter in layer.named_parameters():
                yield f"{prefix}{name}", parameter
        return
    for name, parameter in module.named_parameters(recurse=False):
        yield f"{prefix}{name}", parameter
    for name, buffer in module.named_buffers(recurse=False):
        if name not in module._non_persistent_buffers_set:
            yield f"{prefix}{name}", buffer
    for name, child in module.named_children():
        if name != _OWN:
            yield from _walk(child, f"{prefix}{name}.", merge=merge)


@contextmanager
def _merged(module: nn.Module) -> Iterator[nn.Module]:
    """The layer below an adapter with the adapter merged into copies of its weights, for the length of the block."""
    layer: nn.Module = module.get_base_layer()  # type: ignore[operator]
    own = {name: parameter.data for name, parameter in layer.named_parameters()}
    for name, tensor in own.items():
        if not tensor.is_floating_point():
            raise ValueError(
                f"adapters cannot be merged into the quantised weights of {type(layer).__name__} ({name} is "
                f"{tensor.dtype}): send the adapters alone, with vllm_sync_mode='adapter'"
            )
    parameters = dict(layer.named_parameters())
    try:
        for name, parameter in parameters.items():
            parameter.data = own[name].clone()
        with torch.no_grad():
            module.merge()  # type: ignore[operator]
        yield layer
    finally:
        if module.merged:
            for parameter in parameters.values():  # what was yielded may be in use still: subtract from something else
                parameter.data = torch.zeros_like(parameter.data)
            module.unmerge()  # type: ignore[operator]
        for name, parameter in parameters.items():
            parameter.data = own[name]
