"""Runs the policy and its reference over micro-batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agent_r1_trainer._compat import adapters_disabled, is_peft_model
from agent_r1_trainer.credit import Level
from agent_r1_trainer.learning.scoring import ScoreRequest
from agent_r1_trainer.packing import MicroBatch

__all__ = ["Reference", "Scores", "score"]


@dataclass(frozen=True, slots=True)
class Scores:
    """What a forward pass over a micro-batch gives.

    Attributes:
        logprobs: [M] of the response tokens.
        entropies: [M] of their distributions.
        values: [S], at level "token" [M]; None if they were not asked for.
    """

    logprobs: Tensor
    entropies: Tensor
    values: Tensor | None


def score(
    model: nn.Module,
    batch: MicroBatch,
    *,
    values: bool,
    level: Level = "step",
    detach_values: bool = False,
    entropy_gradient: bool = False,
) -> Scores:
    """Score a micro-batch with a model that `attach_scoring` prepared.

    Args:
        model: The model, wrapped or not; gradients follow the surrounding mode.
        batch: On the model's device.
        values: Read the value head too.
        level: Where: at each step, or at each response token.
        detach_values: Keep the value head's gradient from the trunk.
        entropy_gradient: Whether the entropies are differentiated too; it keeps another tensor of logits' size.
    """
    request = ScoreRequest(
        rows=batch.token_row, columns=batch.token_col, ids=batch.token_ids, entropy_gradient=entropy_gradient
    )
    if values:
        request["value_rows"], request["value_columns"], request["value_heads"] = batch.value_positions(level)
        request["detach_values"] = detach_values
    output = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, score=request)
    return Scores(output["logprobs"], output["entropies"], output.get("values"))


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
