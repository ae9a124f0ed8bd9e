"""What a batch of rows has read so far, and how it reads on.

Two kinds with one interface: `RowContext` keeps rows of their own lengths and takes over what earlier turns computed;
`PaddedContext` pads prompts on the left and works with any cache of transformers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from agent_r1_trainer._compat import RowCache, apply_head, cache_argument, new_cache
from agent_r1_trainer.trajectory import TokenIds

__all__ = ["CachedRow", "Context", "PaddedContext", "RowContext"]

_PREFILL_TOKENS = 16_384  # padding included, in one pass over prompts


class Context(Protocol):
    """B rows that wait for their next token."""

    def start(self) -> Tensor:
        """Read the prompts; logits [B, vocabulary] of the first token of each reply."""
        ...

    def advance(self, tokens: Tensor) -> Tensor:
        """Read one more token [B] of each row; logits [B, vocabulary] of the next."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        ...


class PaddedContext:
    """Prompts padded on the left, in a cache of transformers that grows by a column a token.

    Args:
        model: A causal language model.
        prompts: B token lists.
        pad_id: Padding.
    """

    def __init__(self, model: PreTrainedModel, prompts: Sequence[list[int]], pad_id: int) -> None:
        self._model = model
        self._cache = new_cache(model)
        self._cache_argument = cache_argument(model)
        width = max(map(len, prompts))
        padded = [[pad_id] * (width - len(prompt)) + prompt for prompt in prompts]
        self._ids = torch.tensor(padded, device=model.device)
        mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        self._mask = torch.tensor(mask, device=model.device)

    @property
    def nbytes(self) -> int:
        """Memory of the cache, whatever its layers keep."""
        parts = [value for layer in self._cache.layers for value in vars(layer).values()]
        return sum(part.nbytes for part in parts if isinstance(part, Tensor))

    def start(self) -> Tensor:
        """Read the prompts; see `Context.start`."""
        return self._forward(self._ids, (self._mask.cumsum(dim=-1) - 1).clamp(min=0))

    def advance(self, tokens: Tensor) -> Tensor:
        """Read one more token of each row; see `Context.advance`."""
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=-1)
        return self._forward(tokens[:, None], self._mask.sum(dim=-1, keepdim=True) - 1)

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        # The one selection of rows that every kind of layer knows, recurrent ones too.
        self._cache.reorder_cache(cast(torch.LongTensor, rows))
        self._mask = self._mask[rows]

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        output = self._model(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_argument: self._cache},
        )
        return output.logits[:, -1]


@dataclass(frozen=True, slots=True)
class CachedRow:
    """Where the keys and values of some token ids lie.

    Attributes:
        ids: The token ids; those of a conversation but for the last one that was sampled, which nobody read yet.
        cache: What holds them.
        row: In which row.
    """

    ids: TokenIds
    cache: RowCache
    row: int


class RowContext:
    """Rows at the left of preallocated tensors, each with its own length.

    Args:
        model: A causal language model with full attention; see `TransformersGenerator`.
        trunk: The part of it that computes hidden states.
        prompts: B token lists.
        known: For each prompt what is known of it, a strict prefix, or None.
        room: Most tokens that are read after the prompt.
        pad_id: Padding.
        take: Nobody else reads the caches of `known` any more, so that they are taken over, or freed on the way.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        trunk: nn.Module,
        prompts: Sequence[list[int]],
        known: Sequence[CachedRow | None],
        room: int,
        pad_id: int,
        *,
        take: bool = False,
    ) -> None:
        self._model = model
        self._trunk = trunk
        self._cache_argument = cache_argument(self._trunk)
        self._prompts, self._pad_id = prompts, pad_id
        self._known = [0 if row is None else len(row.ids) for row in known]
        self._lengths = torch.tensor([len(prompt) for prompt in prompts], device=model.device)
        self._longest = max(map(len, prompts))
        self._most = self._longest + room
        self.cache = (_take_over if take else _copy)(known, self._capacity(self._longest + 1))
        self.rows = list(range(len(prompts)))
        """The row of `prompts` that each of the first rows of the cache belongs to; the others are over."""
        self._over: list[int] = []
        self._left: dict[int, tuple[RowCache, int]] = {}

    def cached_rows(self) -> dict[int, tuple[RowCache, int]]:
        """Where the keys and values of each prompt and what was read after it lie: a cache and a row of it."""
        here = {prompt: (self.cache, row) for row, prompt in enumerate([*self.rows, *self._over])}
        return {**self._left, **here}

    def start(self) -> Tensor:
        """Take over what is known and read the rest, equal prompts once; see `Context.start`."""
        known = self._known
        readers = _readers(self._prompts, known)
        missing = {row: len(self._prompts[row]) - known[row] for row in dict.fromkeys(readers)}
        device = self._model.device
        logits: dict[int, Tensor] = {}
        groups = _groups(missing)
        at_once = len(groups) == 1 and len(missing) == len(readers)
        for group in [self.rows] if at_once else groups:
            tails = [self._prompts[row][known[row] :] for row in group]
            width = max(map(len, tails))
            ids = torch.tensor([tail + [self._pad_id] * (width - len(tail)) for tail in tails], device=device)
            offsets = torch.tensor([known[row] for row in group], device=device)
            # A row's padding is written behind its end, where its next tokens overwrite it before anyone sees it.
            last = torch.tensor([len(tail) - 1 for tail in tails], device=device)
            rows = None if at_once else torch.tensor(group, device=device)
            result = self._forward(ids, offsets, rows, max(known[row] for row in group) + width, last)
            logits.update(zip(group, result, strict=True))
        self.cache.arrange([*readers, *range(len(readers), self.cache.rows)], self._longest)
        return torch.stack([logits[row] for row in readers])

    def advance(self, tokens: Tensor) -> Tensor:
        """Read one more token of each row; see `Context.advance`."""
        self._longest += 1
        if self._longest > self.cache.capacity:
            self._widen()
        logits = self._forward(tokens[:, None], self._lengths, None, self._longest, torch.zeros_like(tokens))
        self._lengths = self._lengths + 1
        return logits

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows as the first ones, and leave the others where they are."""
        kept = rows.tolist()
        over = sorted(set(range(len(self.rows))).difference(kept))
        self.cache.arrange([*kept, *over, *range(len(self.rows), self.cache.rows)], self._longest)
        self._over = [self.rows[row] for row in over] + self._over
        self.rows = [self.rows[row] for row in kept]
        self._lengths = self._lengths[rows]

    def _capacity(self, tokens: int) -> int:
        """Room for so many tokens a row and some more, but never more than rows can have."""
        return max(min(tokens + max(tokens // 16, 16), self._most), tokens)

    def _widen(self) -> None:
        """Make room for longer rows, without those that are over."""
        if self._over:
            over = self.cache.split(len(self.rows))
            self._left.update({prompt: (over, row) for row, prompt in enumerate(self._over)})
            self._over = []
        self.cache.resize(len(self.rows), self._capacity(self._longest))

    def _forward(self, ids: Tensor, offsets: Tensor, rows: Tensor | None, visible: int, last: Tensor) -> Tensor:
        """Read `ids` [b, q] behind `offsets` [b]; logits [b, vocabulary] at the positions `last` [b] of them."""
        # Only padding can lie beyond the capacity, and while prompts are read no row's own token is in the last column.
        columns = (offsets[:, None] + torch.arange(ids.size(1), device=ids.device)).clamp(max=self.cache.capacity - 1)
        visible = min(visible, self.cache.capacity)
        hidden_from = torch.arange(visible, device=ids.device)[None, None] > columns[:, :, None]
        mask = ~hidden_from[:, None]
        if self._model.config._attn_implementation == "eager":  # which adds its mask
            dtype = self._model.dtype
            mask = torch.zeros(mask.shape, dtype=dtype, device=ids.device).masked_fill(~mask, torch.finfo(dtype).min)
        self.cache.aim(rows, columns, visible)
        hidden = self._trunk(
            input_ids=ids,
            attention_mask=mask,
            position_ids=columns,
            use_cache=True,
            **{self._cache_argument: self.cache},
        ).last_hidden_state
        return apply_head(self._model, self._trunk, hidden[torch.arange(len(ids), device=ids.device), last])


def _take_over(known: Sequence[CachedRow | None], capacity: int) -> RowCache:
    """A cache whose row i holds what is known of prompt i, in place of those that held it.

    Where all of it lies in one cache, that one is arranged anew; there is never a second one beside it.
    """
    places = [(row.cache, row.row) for row in known if row is not None]
    caches = {id(cache): cache for cache, _ in places}
    taken = [row for _, row in places]
    if len(caches) != 1 or len(set(taken)) < len(taken):
        return _copy(known, capacity, release=True)
    [cache] = caches.values()
    if cache.rows < len(known):
        cache.resize(len(known), cache.capacity)
    free = iter(sorted(set(range(cache.rows)).difference(taken)))
    order = [next(free) if row is None else row.row for row in known]
    cache.arrange([*order, *free], max(len(row.ids) for row in known if row is not None))
    cache.resize(len(known), capacity)
    return cache


def _copy(known: Sequence[CachedRow | None], capacity: int, *, release: bool = False) -> RowCache:
    """A new cache whose row i holds what is known of prompt i."""
    cache = RowCache(len(known), capacity)
    sources: dict[int, tuple[RowCache, list[int], list[int]]] = {}
    for place, row in enumerate(known):
        if row is not None:
            _, rows, places = sources.setdefault(id(row.cache), (row.cache, [], []))
            rows.append(row.row)
            places.append(place)
    if sources:
        cache.fill(list(sources.values()), release=release)
    return cache


def _readers(prompts: Sequence[list[int]], known: Sequence[int]) -> list[int]:
    """The row that reads each prompt: for a prompt of which nothing is known the first one of its like."""
    first: dict[tuple[int, ...], int] = {}
    return [row if known[row] else first.setdefault(tuple(prompt), row) for row, prompt in enumerate(prompts)]


def _groups(lengths: Mapping[int, int]) -> list[list[int]]:
    """Rows of similar length, the longest first: none less than half the longest of its group, nor too much at once.

    Args:
        lengths: By row.
    """
    groups: list[list[int]] = []
    for row in sorted(lengths, key=lambda row: -lengths[row]):
        longest = lengths[groups[-1][0]] if groups else 0
        if groups and lengths[row] * 2 >= longest and longest * (len(groups[-1]) + 1) <= _PREFILL_TOKENS:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
