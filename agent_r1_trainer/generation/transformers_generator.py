"""Generation with a transformers model in this process.

A decode loop of its own rather than `model.generate`, for three reasons: every row samples from its own seed, a row
leaves the batch when its reply ends, and the log-probabilities of the sampled tokens come for free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from agent_r1_trainer._compat import base_causal_lm, cache_argument, new_cache
from agent_r1_trainer.generation.protocol import Generation, SamplingParams
from agent_r1_trainer.generation.sampling import row_uniforms, sample_tokens


class TransformersGenerator:
    """Answers prompts with a causal language model of transformers.

    Prompts are padded on the left, sorted by length into batches, and decoded with a key-value cache. Rows whose reply
    ended are dropped from the batch once they are a quarter of it.

    Args:
        model: The model, not wrapped by DDP or the like (PEFT is fine).
        pad_token_id: Any valid id; padded positions are masked.
        max_rows: Most prompts decoded at once.
    """

    def __init__(self, model: torch.nn.Module, *, pad_token_id: int, max_rows: int = 512) -> None:
        if max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, got {max_rows}")
        self.model: PreTrainedModel = base_causal_lm(model)
        self.pad_token_id = pad_token_id
        self.max_rows = max_rows
        self._cache_argument = cache_argument(self.model)

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[list[int]], sampling: SamplingParams, seeds: Sequence[int]
    ) -> list[Generation]:
        """Answer every prompt; see `Generator.generate`.

        Raises:
            ValueError: If a prompt is empty, or there is not one seed a prompt.
        """
        if len(prompts) != len(seeds):
            raise ValueError(f"expected one seed a prompt, got {len(prompts)} prompts and {len(seeds)} seeds")
        if not all(prompts):
            raise ValueError("cannot answer an empty prompt: the model needs at least one token")
        order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
        replies: dict[int, Generation] = {}
        with evaluation_mode(self.model):
            for start in range(0, len(order), self.max_rows):
                chunk = order[start : start + self.max_rows]
                answered = self._decode([prompts[row] for row in chunk], sampling, [seeds[row] for row in chunk])
                replies.update(zip(chunk, answered, strict=True))
        return [replies[row] for row in range(len(prompts))]

    def _decode(self, prompts: list[list[int]], sampling: SamplingParams, seeds: list[int]) -> list[Generation]:
        device = self.model.device
        rows, width = len(prompts), max(map(len, prompts))
        ids = torch.tensor([[self.pad_token_id] * (width - len(prompt)) + prompt for prompt in prompts], device=device)
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
        positions = (mask.cumsum(dim=-1) - 1).clamp_(min=0)
        stop = torch.tensor(sampling.stop_token_ids, dtype=torch.long, device=device)
        uniforms = row_uniforms(seeds, sampling.max_new_tokens).to(device)

        tokens = torch.zeros(rows, sampling.max_new_tokens, dtype=torch.long, device=device)
        logprobs = torch.zeros(rows, sampling.max_new_tokens, dtype=torch.float32, device=device)
        lengths = torch.full((rows,), sampling.max_new_tokens, dtype=torch.long, device=device)
        live = torch.arange(rows, device=device)  # the row of `prompts` that each row of the batch answers
        done = torch.zeros(rows, dtype=torch.bool, device=device)
        cache = new_cache(self.model)
        for column in range(sampling.max_new_tokens):
            logits = self._forward(ids, mask, positions, cache)
            sampled, sampled_logprobs = sample_tokens(logits.float(), sampling, uniforms[live, column])
            tokens[live, column] = sampled
            logprobs[live, column] = sampled_logprobs
            ended = torch.isin(sampled, stop) & ~done
            lengths[live[ended]] = column + 1
            done = done | ended
            finished = int(done.sum())
            if finished == len(done):
                break
            if finished * 4 >= len(done):
                keep = (~done).nonzero().squeeze(-1)
                cache.batch_select_indices(keep)
                live, mask, sampled, done = live[keep], mask[keep], sampled[keep], done[keep]
            mask = torch.cat([mask, mask.new_ones(len(live), 1)], dim=-1)
            ids, positions = sampled[:, None], mask.sum(dim=-1, keepdim=True) - 1
        return _collect(tokens, logprobs, lengths, set(sampling.stop_token_ids))

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Any) -> torch.Tensor:
        """Logits of the last column, [rows, vocabulary]; the cache grows in place."""
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_argument: cache},
        )
        return output.logits[:, -1]


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Run the block with dropout off, and leave the model in the mode it was in."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _collect(tokens: torch.Tensor, logprobs: torch.Tensor, lengths: torch.Tensor, stop: set[int]) -> list[Generation]:
    replies = []
    for ids, values, length in zip(tokens.tolist(), logprobs.tolist(), lengths.tolist(), strict=True):
        ids = ids[:length]
        replies.append(Generation(ids, values[:length], "stop" if ids[-1] in stop else "length"))
    return replies
