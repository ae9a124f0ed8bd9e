"""A forward pass that returns what the losses need and nothing else, of the policy or its reference.

The log-probabilities, entropies and values of a packed batch are read at a few positions, so the language-model head is
applied to those alone: prompts, padding and what the environment said never meet the vocabulary. The pass is reached
through the model's own `forward`, so that DDP and PEFT wrap it like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import MethodType
from typing import Any, TypedDict, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from agent_r1_trainer._compat import (
    adapters_disabled,
    apply_head,
    attends_by_backend,
    base_causal_lm,
    class_forward,
    find_trunk,
    is_peft_model,
)
from agent_r1_trainer.credit import Level
from agent_r1_trainer.losses import token_log_probs
from agent_r1_trainer.packing import MicroBatch, needs_padding_mask, reads_rows_end_to_end

__all__ = [
    "Reference",
    "ScoreRequest",
    "Scores",
    "ValueHead",
    "attach_scoring",
    "chunk_size",
    "leaves_padding_out",
    "offloaded",
    "read_rows",
    "read_values",
    "score",
]

CHUNK = 1024
"""Tokens whose logits exist at the same time: with 150,000 words, 0.6 GB in fp32."""
_SMALL = 1 << 24
"""Logits that are never divided, however many tokens they are of: 64 MB in fp32."""


class ScoreRequest(TypedDict, total=False):
    """Where to read; all int64 and on the model's device.

    Attributes:
        rows: [M] row of each response token.
        columns: [M] column of each response token (its logits are those of the column before).
        ids: [M] the tokens.
        entropy: Whether entropies are wanted, too.
        value_rows: [n] row of each position whose value is read. Absent: no values.
        value_columns: [n] its column.
        value_heads: [n] row of the value head that predicts it.
        detach_values: Keep the value head's gradient from the trunk.
    """

    rows: Tensor
    columns: Tensor
    ids: Tensor
    entropy: bool
    value_rows: Tensor
    value_columns: Tensor
    value_heads: Tensor
    detach_values: bool


class ValueHead(nn.Module):
    """A linear map from the trunk's last hidden state to a value in the units of `ValueScales`, in fp32, zero at first.

    Args:
        hidden_size: Width of the trunk.
        rows: One for each environment of a mixture.
    """

    def __init__(self, hidden_size: int, rows: int = 1) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, rows, dtype=torch.float32)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor, rows: Tensor | None = None) -> Tensor:
        """Values [n] of hidden states [n, width], each by the row of the head that is named; None is the first."""
        with torch.autocast(hidden.device.type, enabled=False):
            values = self.linear(hidden.float())
        if rows is None or values.size(-1) == 1:
            return values[..., 0]
        return values.gather(-1, rows[:, None]).squeeze(-1)

    @torch.no_grad()
    def change_units(self, row: int, factor: float, shift: float) -> None:
        """Turn all predictions n of a row into ``factor * n + shift``."""
        self.linear.weight[row] *= factor
        self.linear.bias[row] = float(self.linear.bias[row]) * factor + shift


def read_values(
    head: ValueHead, hidden: Tensor, rows: Tensor, columns: Tensor, heads: Tensor | None, *, detach: bool = False
) -> Tensor:
    """Values [n] at some positions of hidden states [B, L, width], by the rows `heads` [n] of the head."""
    states = hidden[rows, columns]
    return head(states.detach() if detach else states, heads)


@contextmanager
def offloaded(module: nn.Module, smallest: int = 1 << 20) -> Iterator[None]:
    """Keep what the block saves for its backward pass in the CPU's memory until then, but the weights.

    Copies are queued behind the computation, on its own stream: nobody waits for them, and none comes too early.

    Args:
        module: Whose weights stay where they are.
        smallest: Bytes of a tensor that is worth the way.
    """
    weights = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}

    def pack(saved: Tensor) -> Tensor | tuple[torch.device, Tensor]:
        if saved.nbytes < smallest or saved.untyped_storage().data_ptr() in weights:
            return saved
        kept = torch.empty(saved.shape, dtype=saved.dtype, pin_memory=saved.is_cuda)
        return saved.device, kept.copy_(saved, non_blocking=True)

    def unpack(kept: Tensor | tuple[torch.device, Tensor]) -> Tensor:
        return kept if isinstance(kept, Tensor) else kept[1].to(kept[0], non_blocking=True)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield


def read_rows(
    trunk: nn.Module, config: Any, input_ids: Tensor, attention_mask: Tensor, *, offload: bool = False
) -> Tensor:
    """Hidden states [B, L, width] of rows that are padded on the right, right where there is no padding.

    Args:
        trunk: Of a causal language model.
        config: Of the model.
        input_ids: [B, L].
        attention_mask: [B, L]; the model gets it only if it needs it.
        offload: Keep activations in the CPU's memory until the backward pass.
    """
    mask = {"attention_mask": attention_mask} if needs_padding_mask(config) else {}
    with offloaded(trunk) if offload else nullcontext():
        if leaves_padding_out(trunk, config):
            return _read_end_to_end(trunk, input_ids, attention_mask)
        return trunk(input_ids=input_ids, **mask, use_cache=False).last_hidden_state


def leaves_padding_out(trunk: nn.Module, config: Any) -> bool:
    """Whether `read_rows` reads rows one behind the other, as a single one; only where nothing speaks against it."""
    return attends_by_backend(trunk) and reads_rows_end_to_end(config, trunk)


def _read_end_to_end(trunk: nn.Module, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Hidden states [B, L, width], zero on padding, of which nothing is computed."""
    real, lengths = attention_mask.bool(), attention_mask.sum(-1)
    bounds = nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    longest = int(lengths.max())
    hidden = trunk(
        input_ids=input_ids[real][None],
        position_ids=(attention_mask.cumsum(-1) - 1)[real][None],
        cu_seq_lens_q=bounds,
        cu_seq_lens_k=bounds,
        max_length_q=longest,
        max_length_k=longest,
        use_cache=False,
    ).last_hidden_state
    rows = hidden.new_zeros(*input_ids.shape, hidden.size(-1))
    rows[real] = hidden[0]
    return rows


def attach_scoring(model: nn.Module, *, temperature: float, value_head: int = 0, offload: bool = False) -> None:
    """Let `model(..., score=ScoreRequest)` return scores; without `score` the forward is the model's own.

    The scores are a dict: `logprobs` [M], and `entropies` [M] and `values` [n] if asked for. A deep copy of the model
    keeps the ability.

    Args:
        model: A causal language model, possibly wrapped by PEFT.
        temperature: Logits are divided by it.
        value_head: Add a `ValueHead` of so many rows as `value_head` of the causal language model. With 0, one that an
            earlier run left on the model is taken off: nothing would train it, and it would be saved as if it were
            this run's.
        offload: Keep activations in the CPU's memory until the backward pass.

    Raises:
        ValueError: The model's logits are not computed from hidden states that can be told apart.
    """
    inner = base_causal_lm(model)
    trunk = find_trunk(inner)
    if value_head:
        inner.value_head = ValueHead(trunk.width, value_head).to(inner.device)
    elif isinstance(getattr(inner, "value_head", None), ValueHead):
        del inner.value_head

    def forward(self: PreTrainedModel, *args: Any, score: ScoreRequest | None = None, **kwargs: Any) -> Any:
        if score is None:
            return class_forward(self)(self, *args, **kwargs)

        body = self.get_submodule(trunk.name)

        def score_tokens(hidden: Tensor, ids: Tensor) -> tuple[Tensor, Tensor | None]:
            logits = apply_head(self, body, hidden)
            return token_log_probs(logits, ids, temperature, entropy=score.get("entropy", False), scratch=True)

        # PEFT adds arguments of its own, all None.
        hidden = read_rows(body, self.config, kwargs["input_ids"], kwargs["attention_mask"], offload=offload)
        states = hidden[score["rows"], score["columns"] - 1]
        output = _in_chunks(score_tokens, states, score["ids"], self.config.get_text_config().vocab_size)
        if "value_rows" in score:
            detach = score.get("detach_values", False)
            head = cast(ValueHead, self.value_head)
            places = score["value_rows"], score["value_columns"], score["value_heads"]
            output["values"] = read_values(head, hidden, *places, detach=detach)
        return output

    forward.__wrapped__ = class_forward(inner)  # type: ignore[attr-defined]  # keeps the signature for `generate`
    inner.forward = MethodType(forward, inner)


def chunk_size(vocabulary: int) -> int:
    """Most tokens whose logits exist at the same time."""
    return max(CHUNK, _SMALL // vocabulary)


def _in_chunks(
    score_tokens: Callable[[Tensor, Tensor], tuple[Tensor, Tensor | None]],
    hidden: Tensor,
    ids: Tensor,
    vocabulary: int,
) -> dict[str, Tensor]:
    """Score tokens CHUNK at a time; with gradients the logits of a chunk are computed again in the backward pass.

    Those of the last one stay: the backward pass begins with them, before any others exist again.
    """
    count = max(-(-len(ids) // chunk_size(vocabulary)), 1)
    parts = list(zip(hidden.tensor_split(count), ids.tensor_split(count), strict=True))
    scores = [checkpoint(score_tokens, *part, use_reentrant=False) for part in parts[:-1]]
    logprobs, entropies = zip(*scores, score_tokens(*parts[-1]), strict=True)
    output = {"logprobs": torch.cat(logprobs)}
    if entropies[0] is not None:
        output["entropies"] = torch.cat(entropies)
    return output


@dataclass(frozen=True, slots=True)
class Scores:
    """What a forward pass over a micro-batch gives.

    Attributes:
        logprobs: [M] of the response tokens.
        entropies: [M] of their distributions; None if they were not asked for.
        values: [S], at level "token" [M]; None if they were not asked for.
    """

    logprobs: Tensor
    entropies: Tensor | None
    values: Tensor | None


def score(
    model: nn.Module,
    batch: MicroBatch,
    *,
    values: bool,
    level: Level = "step",
    detach_values: bool = False,
    entropy: bool = False,
) -> Scores:
    """Score a micro-batch with a model that `attach_scoring` prepared.

    Args:
        model: The model, wrapped or not; gradients follow the surrounding mode.
        batch: On the model's device.
        values: Read the value head too.
        level: Where: at each step, or at each response token.
        detach_values: Keep the value head's gradient from the trunk.
        entropy: Compute entropies too.
    """
    request = ScoreRequest(rows=batch.token_row, columns=batch.token_col, ids=batch.token_ids, entropy=entropy)
    if values:
        request["value_rows"], request["value_columns"], request["value_heads"] = batch.value_positions(level)
        request["detach_values"] = detach_values
    output = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, score=request)
    return Scores(output["logprobs"], output.get("entropies"), output.get("values"))


class Reference:
    """The policy at the start of training, for a KL.

    Args:
        policy: The policy, unwrapped. With adapters added by this run their absence is the reference; no copy is made.
        copy: A frozen copy that `attach_scoring` prepared, where one is needed.
    """

    def __init__(self, policy: nn.Module, copy: nn.Module | None) -> None:
        if copy is None and not is_peft_model(policy):
            raise ValueError("a policy without adapters needs a copy as its reference")
        self.copy = copy.eval().requires_grad_(False) if copy is not None else None
        self._policy = policy

    @torch.no_grad()
    def logprobs(self, batch: MicroBatch) -> Tensor:
        """Log-probabilities [M] of the response tokens under the reference."""
        if self.copy is not None:
            return score(self.copy, batch, values=False).logprobs
        with adapters_disabled(self._policy):
            return score(self._policy, batch, values=False).logprobs
