"""What a scoring pass with its gradients allocates, counted with shapes alone.

The trainer's own pass runs on tensors that have a shape and no memory, so that the figure follows whatever the pass
does: its kernels, checkpoints, chunks and casts. A model of many layers is traced with a few: what each of them adds is
the same.
"""

from __future__ import annotations

import copy
import dataclasses
import weakref
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, PretrainedConfig

from agent_r1_trainer._compat import find_trunk, recompute_activations
from agent_r1_trainer.learning.scoring import ValueHead, attach_scoring, chunk_size, score
from agent_r1_trainer.packing import MicroBatch

__all__ = ["Pass", "count_parameters", "trace_pass"]

_FEW = (1, 3)  # layers that are traced in the place of many


@dataclass(frozen=True, slots=True)
class Pass:
    """A forward and backward pass over one micro-batch.

    Attributes:
        rows: B.
        length: L, tokens of each row.
        replies: M, tokens that the policy sampled.
        bf16: Computed under autocast.
        checkpointing: Activations are computed again in the backward pass.
        values: The value head is read.
        frozen: The embeddings and the head of the language model are not trained, as with LoRA.
    """

    rows: int
    length: int
    replies: int
    bf16: bool = False
    checkpointing: bool = False
    values: bool = True
    frozen: bool = False


def trace_pass(config: PretrainedConfig, one: Pass) -> int:
    """Bytes that are allocated at the peak of a pass, beside the weights and the gradients that are kept.

    Args:
        config: Of a causal language model.
        one: The pass.
    """
    text = config.get_text_config()
    # Logits of a chunk are all that exist at a time: more replies add to the time of the trace only.
    one = dataclasses.replace(one, replies=min(one.replies, chunk_size(text.vocab_size)))
    layers = text.num_hidden_layers
    if layers <= _FEW[1]:
        return _trace(config, one)
    least, most = (_trace(_shortened(config, count), one) for count in _FEW)
    return most + (most - least) * (layers - _FEW[1]) // (_FEW[1] - _FEW[0])


def count_parameters(config: PretrainedConfig, lora: dict[str, Any] | None = None) -> tuple[int, int, int]:
    """Parameters of a model: all, those that train, and those of its output layer that are not its embeddings.

    Args:
        config: Of a causal language model.
        lora: Arguments of `peft.LoraConfig`, or None to train all.
    """
    with torch.device("meta"):
        model: nn.Module = AutoModelForCausalLM.from_config(config)
        head, embeddings = model.get_output_embeddings(), model.get_input_embeddings()  # type: ignore[operator]
        own = head is not None and head.weight is not embeddings.weight
        untied = sum(p.numel() for p in head.parameters()) if own else 0
        if lora is not None:
            from peft import LoraConfig, get_peft_model

            model = get_peft_model(model, LoraConfig(**{"task_type": "CAUSAL_LM", **lora}))
    parameters = list(model.parameters())
    return sum(p.numel() for p in parameters), sum(p.numel() for p in parameters if p.requires_grad), untied


def _shortened(config: PretrainedConfig, layers: int) -> PretrainedConfig:
    """The configuration with fewer layers."""
    shorter = copy.deepcopy(config)
    text = shorter.get_text_config()
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    return shorter


def _trace(config: PretrainedConfig, one: Pass) -> int:
    with FakeTensorMode(allow_non_fake_inputs=True), torch.random.fork_rng(devices=[]):
        model = AutoModelForCausalLM.from_config(copy.deepcopy(config), dtype=torch.float32).train()
        attach_scoring(model, temperature=1.0)
        if one.values:
            model.value_head = ValueHead(find_trunk(model).width)
        if one.checkpointing:
            recompute_activations(model)
        if one.frozen:
            _freeze_words(model)
        for parameter in model.parameters():
            if parameter.requires_grad:  # what is kept of a gradient is counted elsewhere
                parameter.register_post_accumulate_grad_hook(_drop_gradient)
        batch = _batch(one)
        with _Counter() as counter:
            with torch.autocast("cpu", dtype=torch.bfloat16) if one.bf16 else nullcontext():
                scores = score(model, batch, values=one.values)
            total = scores.logprobs.sum()
            if scores.values is not None:
                total = total + scores.values.sum()
            total.backward()
        return counter.peak


def _batch(one: Pass) -> MicroBatch:
    def numbers(count: int, value: int = 0) -> Tensor:
        return torch.full((count,), value, dtype=torch.int64)

    tokens, steps = one.replies, one.rows
    ids = torch.zeros(one.rows, one.length, dtype=torch.int64)
    return MicroBatch(
        input_ids=ids, attention_mask=torch.ones_like(ids),
        token_row=numbers(tokens), token_col=numbers(tokens, 1),
        token_step=numbers(tokens), token_index=numbers(tokens),
        value_row=numbers(steps), value_col=numbers(steps), value_head=numbers(steps), step_index=numbers(steps),
    )  # fmt: skip


def _drop_gradient(parameter: Tensor) -> None:
    parameter.grad = None


def _freeze_words(model: Any) -> None:
    for part in (model.get_input_embeddings(), model.get_output_embeddings()):
        if part is not None:
            part.requires_grad_(False)
    model.get_input_embeddings().register_forward_hook(lambda module, given, output: output.requires_grad_(True))


class _Counter(TorchDispatchMode):
    """Bytes of the tensors that live, and the most there were, of those that were made within the block."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._live = 0
        self._known: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                key = storage._cdata
                if key not in self._known and key not in given:
                    self._known[key] = storage.nbytes()
                    self._live += storage.nbytes()
                    weakref.finalize(storage, self._forget, key)
        self.peak = max(self.peak, self._live)
        return result

    def _forget(self, key: int) -> None:
        self._live -= self._known.pop(key)
