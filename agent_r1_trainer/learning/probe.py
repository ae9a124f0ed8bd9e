"""Whether a model can be read as the sampler and the training pass read it.

Both read a model otherwise than its own forward pass over a whole text does: token by token, with a cache of what came
before, and several turns at a time. Not every architecture gives the same distribution then; one that is wrong by some
nats would be trained all the same. So a few texts of random tokens are read in all ways before anything else happens.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from agent_r1_trainer._compat import base_causal_lm, class_forward, find_trunk
from agent_r1_trainer.generation.contexts import CachedRow, Context, PaddedContext, RowContext
from agent_r1_trainer.generation.transformers_generator import evaluation_mode, rows_stay_valid
from agent_r1_trainer.generation.witness import random_texts
from agent_r1_trainer.learning.agreement import LIMIT, computes_exactly
from agent_r1_trainer.learning.scoring import score
from agent_r1_trainer.packing import Layout, collate, merge_units
from agent_r1_trainer.trajectory import Step, StopReason, TokenIds, Trajectory

__all__ = ["Probe"]

logger = logging.getLogger(__name__)

_LIMIT_16_BITS = 0.1
"""Nats in the mean, of random tokens, which differ more than what a model would say; see also `agreement`."""
_PROMPTS, _REPLY, _MORE = (2, 7, 11), 4, 3
"""Tokens of the parts of a text; prompts of unequal length, so that rows are padded."""


class Probe:
    """A few texts of random tokens, and the logits that the model's own forward pass gives after each of their tokens.

    A text is a prompt, a reply, something new and a second reply.

    Args:
        model: A causal language model, possibly with PEFT adapters, where it will compute.
        tokenizer: Its tokenizer.
    """

    @torch.no_grad()
    def __init__(self, model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> None:
        self._policy = model
        self._model = base_causal_lm(model)
        self._pad_id = tokenizer.pad_token_id or 0
        self._exact = computes_exactly(model)
        config = self._model.config.get_text_config()
        window = getattr(config, "max_position_embeddings", None) or math.inf
        lengths = [int(max(min(count, window - 2 * _REPLY - _MORE), 1)) for count in _PROMPTS]
        self._texts = random_texts(tokenizer, config.vocab_size, [count + 2 * _REPLY + _MORE for count in lengths])
        # Tokens of each text before its first and its second reply.
        self._turns = (lengths, [count + _REPLY + _MORE for count in lengths])
        with evaluation_mode(self._model):
            self._own = [self._forward(text) for text in self._texts]

    def find_reading(self, *, rows: bool = True) -> bool:
        """Find a way to read the model token by token that gives what its own forward pass gives.

        Args:
            rows: Try to keep keys and values from turn to turn.

        Returns:
            Whether they can be kept.

        Raises:
            ValueError: There is no such way.
        """
        model = self._model
        if rows and rows_stay_valid(model):
            trunk = model.get_submodule(find_trunk(model).name)
            fault = self._read(
                lambda prompts, known: RowContext(model, trunk, prompts, known, _REPLY, self._pad_id, take=True)
            )
            if fault is None:
                return True
            logger.warning("prompts that grow are read again at every turn, because of the model: otherwise %s", fault)
        fault = self._read(lambda prompts, known: PaddedContext(model, prompts, self._pad_id))
        if fault is not None:
            raise self._refusal("token by token, with a cache of what came before", fault)
        return False

    @torch.no_grad()
    def check_scoring(self, *, temperature: float, merge: bool) -> None:
        """Compare the training pass with the model's own forward pass.

        Args:
            temperature: That `attach_scoring` was given.
            merge: Whether turns are merged into sequences.

        Raises:
            ValueError: They differ.
        """
        turns = list(zip(*self._turns, strict=True))
        trajectories = [
            Trajectory("", [Step(text[:at], text[at : at + _REPLY]) for at in starts], StopReason.TERMINATED)
            for text, starts in zip(self._texts, turns, strict=True)
        ]
        layout = Layout(trajectories)
        batch = collate(merge_units(trajectories, merge), trajectories, layout, self._pad_id).to(self._model.device)
        found, apart = torch.zeros(layout.num_tokens), []
        with evaluation_mode(self._model):
            batch.write_tokens(found, score(self._policy, batch, values=False).logprobs)
        replies = iter(found.split(_REPLY))
        for own, text, starts in zip(self._own, self._texts, turns, strict=True):
            for at in starts:
                logps = (own[at - 1 : at - 1 + _REPLY] / temperature).log_softmax(-1).cpu()
                expected = logps.gather(-1, torch.tensor(text[at : at + _REPLY])[:, None]).squeeze(-1)
                # Random tokens may be unlikely ones, whose log-probabilities are rounded as coarsely as they are large.
                apart.append((next(replies) - expected).abs() / expected.abs().clamp(min=1.0))
        fault = self._fault(torch.cat(apart))
        if fault is not None:
            raise self._refusal("several turns at a time, in rows padded on the right", fault)

    def _forward(self, text: list[int]) -> Tensor:
        ids = torch.tensor([text], device=self._model.device)
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        return class_forward(self._model)(self._model, **given).logits[0].float()

    @torch.no_grad()
    def _read(self, make: Callable[[list[list[int]], list[CachedRow | None]], Context]) -> str | None:
        """Read the texts turn by turn, the shortest leaving in mid-reply; returns what is wrong with that."""
        apart: list[Tensor] = []
        known: list[CachedRow | None] = [None] * len(self._texts)
        device = self._model.device
        try:
            with evaluation_mode(self._model):
                for lengths in self._turns:
                    context = make([text[:at] for text, at in zip(self._texts, lengths, strict=True)], known)
                    rows, read = list(range(len(lengths))), list(lengths)
                    logits = context.start()
                    for column in range(_REPLY):
                        for row, found in zip(rows, logits.float(), strict=True):
                            apart.append(_expected_difference(self._own[row][lengths[row] + column - 1], found))
                        if column == _REPLY - 1:
                            break
                        if column == 1:
                            rows = rows[1:]
                            context.keep(torch.tensor(rows, device=device))
                        tokens = [self._texts[row][lengths[row] + column] for row in rows]
                        logits = context.advance(torch.tensor(tokens, device=device))
                        for row in rows:
                            read[row] += 1
                    if isinstance(context, RowContext):
                        places = context.cached_rows()
                        known = [
                            CachedRow(TokenIds(text[: read[row]]), *places[row]) for row, text in enumerate(self._texts)
                        ]
        except Exception as error:  # whatever an architecture says about a cache that it does not know
            return f"it fails with {type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        return self._fault(torch.stack(apart))

    def _fault(self, apart: Tensor) -> str | None:
        """Say how far log-probabilities are from the model's own, or None where that is within the limit.

        The limit falls with the spread of the logits: in a model whose words are all alike, everything agrees to some
        hundredths of a nat.

        Args:
            apart: Nats, of each position.
        """
        own = torch.cat(self._own)
        if own.isnan().any():  # weights that are not finite have a guard of their own
            return None
        spread = float(own.clamp(min=-1e9).std(-1).mean())  # some architectures forbid words with minus infinity
        apart = apart.nan_to_num(nan=math.inf)
        size, limit = (apart.max(), LIMIT * min(1.0, spread)) if self._exact else (apart.mean(), _LIMIT_16_BITS)
        if size <= limit:
            return None
        return f"its log-probabilities differ by {size:.3g} nats (limit {limit:.2g}) from those of its own forward pass"

    def _refusal(self, how: str, fault: str) -> ValueError:
        kind = f"a model of type {self._model.config.model_type!r} ({type(self._model).__name__})"
        return ValueError(f"{kind} is not supported: read {how}, {fault}")


def _expected_difference(own: Tensor, found: Tensor) -> Tensor:
    """How far apart two distributions put the log-probability of a token that the first one samples; logits [V]."""
    own, found = own.log_softmax(-1), found.log_softmax(-1)
    return torch.where(own.isneginf(), 0.0, own.exp() * (own - found).abs()).sum()
