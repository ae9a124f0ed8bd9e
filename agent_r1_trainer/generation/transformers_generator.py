"""Generation with a transformers model in this process.

A decode loop of its own rather than `model.generate`, for four reasons: every row samples from its own seed, a row
leaves the batch when its reply ends, the log-probabilities of the sampled tokens come for free, and a prompt that
continues the last turn's conversation is read from where that ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from agent_r1_trainer._compat import base_causal_lm, find_trunk
from agent_r1_trainer.fields import Budget
from agent_r1_trainer.generation.contexts import CachedRow, Context, PaddedContext, RowContext
from agent_r1_trainer.generation.prefixes import PrefixIndex
from agent_r1_trainer.generation.protocol import Generation, SamplingParams, spread
from agent_r1_trainer.generation.sampling import row_uniforms, sample_tokens
from agent_r1_trainer.generation.stop_strings import StopStrings
from agent_r1_trainer.packing import merge_obstacle
from agent_r1_trainer.trajectory import TokenIds

__all__ = ["TransformersGenerator", "evaluation_mode", "free_memory", "generation_limits", "rows_stay_valid"]


class TransformersGenerator:
    """Answers prompts with a causal language model of transformers.

    Rows whose reply ended are dropped from the batch once they are a quarter of it.

    Keys and values of a call are kept for the next one, so that a prompt which begins with an earlier prompt and its
    reply costs only what was added. That needs full attention and positions that do not depend on the length; other
    models read every prompt afresh. The weights must not change during the generator's life: make a new one after
    every update.

    Args:
        model: The model, not wrapped by DDP or the like (PEFT is fine).
        pad_token_id: Any valid id; padded positions are masked.
        max_rows: Most prompts decoded at once.
        max_tokens: Most tokens decoded at once: rows times the longest prompt with the longest reply. A row that is
            longer is decoded alone.
        max_cached_tokens: Most tokens whose keys and values are kept between calls, all rows together and padding
            included. 0 keeps none.
        tokenizer: Reads the replies; needed where there are stop strings.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        pad_token_id: int = 0,
        max_rows: int = 512,
        max_tokens: int = 262_144,
        max_cached_tokens: int = 131_072,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        if max_rows < 1 or max_tokens < 1:
            raise ValueError(f"max_rows and max_tokens must be at least 1, got {max_rows} and {max_tokens}")
        self.model: PreTrainedModel = base_causal_lm(model)
        self.pad_token_id = pad_token_id
        self.tokenizer = tokenizer
        self.max_rows = max_rows
        self.max_tokens = max_tokens
        self.max_cached_tokens = max_cached_tokens if rows_stay_valid(self.model) else 0
        self._trunk = self.model.get_submodule(find_trunk(self.model).name) if self.max_cached_tokens else self.model
        self._cached: list[CachedRow] = []

    @torch.no_grad()
    def generate(
        self,
        prompts: Sequence[list[int]],
        sampling: SamplingParams | Sequence[SamplingParams],
        seeds: Sequence[int],
    ) -> list[Generation]:
        """Answer every prompt; see `Generator.generate`.

        Raises:
            ValueError: If a prompt is empty, there is not one seed a prompt, or the sampling parameters cannot be used
                together or without a tokenizer.
        """
        each = spread(sampling, len(prompts))
        strings = [row.stop_strings for row in each]
        if len(each) != len(prompts) or len({replace(row, stop_strings=()) for row in set(each)}) > 1:
            raise ValueError("expected sampling parameters for each prompt that differ in stop_strings only")
        if any(strings) and self.tokenizer is None:
            raise ValueError(
                "stop_strings need a tokenizer that reads the replies: TransformersGenerator(tokenizer=...)"
            )
        if len(prompts) != len(seeds):
            raise ValueError(f"expected one seed a prompt, got {len(prompts)} prompts and {len(seeds)} seeds")
        if not all(prompts):
            raise ValueError("cannot answer an empty prompt: the model needs at least one token")
        if not prompts:
            return []
        common = each[0]
        replies: dict[int, Generation] = {}
        found = self._find(prompts)
        chunks = self._chunks(found, [len(prompt) + common.max_new_tokens for prompt in prompts])
        last_reader = {id(row.cache): number for number, chunk in enumerate(chunks) for row in _present(found, chunk)}
        with evaluation_mode(self.model):
            for number, chunk in enumerate(chunks):
                stops = self._stops([strings[row] for row in chunk])
                known = [found.pop(row) for row in chunk]
                take = all(row is None or last_reader[id(row.cache)] == number for row in known)
                asked = [prompts[row] for row in chunk]
                answered = self._answer(asked, common, stops, [seeds[row] for row in chunk], known, take)
                replies.update(zip(chunk, answered, strict=True))
        return [replies[row] for row in range(len(prompts))]

    def _find(self, prompts: Sequence[list[int]]) -> dict[int, CachedRow | None]:
        """What is known of each prompt; nothing else is kept."""
        known, self._cached = PrefixIndex(self._cached), []
        return {row: known.longest(TokenIds(prompt)) for row, prompt in enumerate(prompts)}

    def _chunks(self, found: Mapping[int, CachedRow | None], lengths: Sequence[int]) -> list[list[int]]:
        """Divide prompts into chunks that are decoded together: those whose beginnings lie in one cache, if they fit.

        Args:
            found: What is known of each prompt.
            lengths: Of each prompt with the longest reply.
        """
        groups: dict[int, list[int]] = {}
        for row in sorted(found, key=lambda row: lengths[row]):
            known = found[row]
            groups.setdefault(0 if known is None else id(known.cache), []).append(row)
        chunks: list[list[int]] = []
        longest = 0
        for group in groups.values():
            both = max(longest, lengths[group[-1]])
            if chunks and self._fits(len(chunks[-1]) + len(group), both):
                chunks[-1] += group
                longest = both
                continue
            chunks.append([])
            for row in group:  # the longer ones come later
                if chunks[-1] and not self._fits(len(chunks[-1]) + 1, lengths[row]):
                    chunks.append([])
                chunks[-1].append(row)
            longest = lengths[group[-1]]
        return chunks

    def _fits(self, rows: int, longest: int) -> bool:
        return rows <= self.max_rows and rows * longest <= self.max_tokens

    def _stops(self, strings: Sequence[Sequence[str]]) -> StopStrings | None:
        return StopStrings(self.tokenizer, strings) if self.tokenizer is not None and any(strings) else None

    def _answer(
        self,
        prompts: list[list[int]],
        sampling: SamplingParams,
        stops: StopStrings | None,
        seeds: list[int],
        known: list[CachedRow | None],
        take: bool,
    ) -> list[Generation]:
        uniforms = row_uniforms(seeds, sampling.max_new_tokens).to(self.model.device)
        if not self.max_cached_tokens:
            padded = PaddedContext(self.model, prompts, self.pad_token_id)
            return _decode(padded, len(prompts), sampling, stops, uniforms)
        room = sampling.max_new_tokens
        context = RowContext(self.model, self._trunk, prompts, known, room, self.pad_token_id, take=take)
        replies = _decode(context, len(prompts), sampling, stops, uniforms)
        places = context.cached_rows()
        rows = [CachedRow(TokenIds(prompts[row] + reply.ids[:-1]), *places[row]) for row, reply in enumerate(replies)]
        if _allocated([*self._cached, *rows]) <= self.max_cached_tokens:
            self._cached += rows
        return replies


@torch.no_grad()
def generation_limits(model: torch.nn.Module, budgets: tuple[Budget, Budget], *, rows: bool) -> tuple[int, int]:
    """Most tokens that are decoded at once, and that are kept from call to call.

    Args:
        model: The model, in the precision that it generates in; not wrapped by DDP or the like.
        budgets: Of both. Where one names no size, it gets two fifths of what is free.
        rows: Whether keys and values are kept in rows of their own.
    """
    if all(budget.tokens is not None for budget in budgets):
        size, free = 1.0, 0.0
    else:
        inner = base_causal_lm(model)
        with evaluation_mode(inner):
            size = _row_bytes(inner) if rows else _padded_bytes(inner)
        free = 0.4 * free_memory(inner.device)
    return budgets[0].in_tokens(size, free), budgets[1].in_tokens(size, free)


def _row_bytes(model: PreTrainedModel) -> float:
    """Memory of a token's keys and values in a `RowCache`."""
    context = RowContext(model, model.get_submodule(find_trunk(model).name), [[0]], [None], 1, pad_id=0)
    context.start()
    return sum(store[0, :, 0].nbytes for store in (*context.cache.keys, *context.cache.values))


def _padded_bytes(model: PreTrainedModel) -> float:
    """Memory that a token adds to a cache of transformers."""
    sizes = []
    for length in (8, 16):
        context = PaddedContext(model, [[0] * length], pad_id=0)
        context.start()
        sizes.append(context.nbytes)
    return (sizes[1] - sizes[0]) / 8


def _decode(
    context: Context, rows: int, sampling: SamplingParams, stops: StopStrings | None, uniforms: Tensor
) -> list[Generation]:
    """Sample replies token by token until each of the rows has ended."""
    device = uniforms.device
    stop = torch.tensor(sampling.stop_token_ids, dtype=torch.long, device=device)
    tokens = torch.zeros(rows, sampling.max_new_tokens, dtype=torch.long, device=device)
    logprobs = torch.zeros(rows, sampling.max_new_tokens, dtype=torch.float32, device=device)
    lengths = torch.full((rows,), sampling.max_new_tokens, dtype=torch.long, device=device)
    stopped = torch.zeros(rows, dtype=torch.bool, device=device)
    live = torch.arange(rows, device=device)  # the reply that each row of the context belongs to
    done = torch.zeros(rows, dtype=torch.bool, device=device)
    logits = context.start()
    for column in range(sampling.max_new_tokens):
        sampled, sampled_logprobs = sample_tokens(logits.float(), sampling, uniforms[live, column])
        tokens[live, column] = sampled
        logprobs[live, column] = sampled_logprobs
        ended = torch.isin(sampled, stop)
        if stops is not None:
            ended |= _complete(stops, live, sampled, done)
        ended &= ~done
        stopped[live[ended]] = True
        lengths[live[ended]] = column + 1
        done = done | ended
        finished = int(done.sum())
        if finished == len(done) or column + 1 == sampling.max_new_tokens:
            break
        if finished * 4 >= len(done):
            keep = (~done).nonzero().squeeze(-1)
            context.keep(keep)
            live, sampled, done = live[keep], sampled[keep], done[keep]
        logits = context.advance(sampled)
    replies = []
    columns = tokens.tolist(), logprobs.tolist(), lengths.tolist(), stopped.tolist()
    for ids, values, length, ended_itself in zip(*columns, strict=True):
        replies.append(Generation(ids[:length], values[:length], "stop" if ended_itself else "length"))
    return replies


def _complete(stops: StopStrings, live: Tensor, sampled: Tensor, done: Tensor) -> Tensor:
    """Which of the rows that go on complete a stop string with their new token."""
    rows = zip(live.tolist(), sampled.tolist(), done.tolist(), strict=True)
    complete = [not over and stops.completed(row, token) for row, token, over in rows]
    return torch.tensor(complete, device=done.device)


def _allocated(rows: Sequence[CachedRow]) -> int:
    """Tokens that the caches of some rows have memory for."""
    caches = {id(row.cache): row.cache for row in rows}
    return sum(cache.rows * cache.capacity for cache in caches.values())


def _present(found: Mapping[int, CachedRow | None], rows: Iterable[int]) -> list[CachedRow]:
    return [known for row in rows if (known := found[row]) is not None]


def rows_stay_valid(model: PreTrainedModel) -> bool:
    """Whether keys and values of a row are the same however the row goes on, and may be masked explicitly."""
    implementation = getattr(model.config, "_attn_implementation", None)
    return implementation in ("sdpa", "eager") and merge_obstacle(model.config, model) is None


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Run the block with dropout off, and leave the model in the mode it was in."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def free_memory(device: torch.device) -> int:
    """Bytes that this process may still use on a device; on a GPU with what torch holds there for later."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + held
    import psutil

    return psutil.virtual_memory().available
