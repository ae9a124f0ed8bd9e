"""How many tokens of a forward and backward pass fit into memory: measured on two short rows, not estimated."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agent_r1_trainer._compat import base_causal_lm
from agent_r1_trainer.fields import Budget
from agent_r1_trainer.learning import scoring
from agent_r1_trainer.packing import Layout, collate, merge_units
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory

__all__ = ["LiveMemory", "bytes_a_token", "head_bytes", "micro_batch_limit", "pending_bytes"]

_LENGTHS = (64, 192)
_REPLY = 8
_SHARE = 0.85
"""Of what is free: allocators leave gaps."""


class LiveMemory(TorchDispatchMode):
    """Counts the bytes of the tensors that are made within the block, those of before left out.

    What an operation needs inside itself is not seen.

    Attributes:
        live: Bytes now.
        peak: The most at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self._note((args, dict(kwargs or {})), count=False)
        result = func(*args, **(kwargs or {}))
        self._note(result, count=True)
        return result

    def _note(self, values: Any, *, count: bool) -> None:
        for value in tree_leaves(values):
            if isinstance(value, Tensor) and id(storage := value.untyped_storage()) not in self._known:
                size = storage.nbytes() if count else 0
                self._known.add(id(storage))
                self.live += size
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self._remove, id(storage), size)

    def _remove(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size


def bytes_a_token(policy: nn.Module) -> float:
    """Memory that a token of a row adds to a forward and backward pass, without what its logits take.

    Args:
        policy: A model that `attach_scoring` prepared, on its device, in the mode and precision that it is trained in.
    """
    short, long = (_peak(policy, length) for length in _LENGTHS)
    return (long - short) / (_LENGTHS[1] - _LENGTHS[0])


def head_bytes(policy: nn.Module) -> int:
    """Memory of the logits of a chunk, and of the gradient of the weights that they come from."""
    weight = base_causal_lm(policy).get_output_embeddings().weight
    return int(1.25 * scoring.CHUNK * len(weight) * 4) + weight.nbytes


def pending_bytes(parameters: Iterable[nn.Parameter]) -> int:
    """Memory that gradients, and AdamW's two moments, of parameters will take before the end of the first update."""
    return sum(3 * parameter.nbytes for parameter in parameters if parameter.requires_grad)


def micro_batch_limit(budget: Budget, policy: nn.Module, free: int, pending: int) -> int:
    """Most tokens of a micro-batch.

    Args:
        budget: Of the settings.
        policy: As for `bytes_a_token`.
        free: Bytes that are free now.
        pending: Bytes that others will take.
    """
    if budget.tokens is not None:
        return budget.tokens
    left = max(_SHARE * free - pending, 0.0) if budget.memory is None else float(budget.memory)
    return Budget(memory=int(max(left - head_bytes(policy), 0.0))).in_tokens(bytes_a_token(policy), left)


def _peak(policy: nn.Module, length: int) -> int:
    """Memory of a forward and backward pass over a row of so many tokens."""
    trajectories = [Trajectory("", [Step([0] * (length - _REPLY), [0] * _REPLY)], StopReason.TERMINATED)]
    batch = collate(merge_units(trajectories), trajectories, Layout(trajectories), pad_id=0)
    device = base_causal_lm(policy).device
    with LiveMemory() as memory:
        scoring.score(policy, batch.to(device), values=False).logprobs.sum().backward()
    for parameter in policy.parameters():
        parameter.grad = None
    return memory.peak
