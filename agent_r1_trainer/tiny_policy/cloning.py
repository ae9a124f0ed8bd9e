"""Behaviour cloning of a tiny policy, three phases in two to four minutes of one core.

1. *Copying.* Random words, repeated: the attention heads that find an earlier occurrence and read what followed it form
   in a quarter of a minute here, and hardly ever from demonstrations alone.
2. *The expert.* The loss on the replies alone does not teach a model of this size to read; a language-model loss on
   the observations beside it does.
3. *Habits.* A short course with a demonstrator of bad habits leaves the skills intact and spoils the strategy.
   Starting from scratch on such demonstrations would fail: there is too little to copy.

The matrices of the layers are trained by Muon, everything else by AdamW.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = [
    "Batch",
    "CloningConfig",
    "Conversation",
    "Report",
    "Teach",
    "clip_and_step",
    "clone",
    "cloning_loss",
    "copying_loss",
    "encode_batch",
    "make_optimizers",
    "set_rate",
]

_RELATIVE = "relative_rate"

Conversation = list[dict[str, Any]]
"""Chat messages up to the last reply. A reply with `"weight": 0` is shown and not imitated."""

Teach = Callable[[Literal["expert", "habits"], int], Iterator[Conversation]]
"""Called with a phase and a seed; yields demonstrations without end."""

Report = Callable[[str, int, float], None]
"""Called with phase, step and loss."""

Loss = Callable[[], torch.Tensor]
"""The loss of a batch, computed when called."""


@dataclass(frozen=True, slots=True)
class CloningConfig:
    """Settings of `clone`. The number of steps is fixed, so the result is a function of the settings alone.

    Attributes:
        seed: Decides the demonstrations, the copying exercises and, with `build_model`, the initial weights.
        copy_steps: Optimizer steps of phase 1.
        expert_steps: Optimizer steps of phase 2.
        habit_steps: Optimizer steps of phase 3.
        batch_size: Demonstrations, or exercises, a step; each is used once.
        pool: Batches that are drawn together and share their demonstrations out by length: less padding.
        copy_words: Random words of an exercise, which are then repeated twice.
        learning_rate: At the start; it falls along a cosine within phase 2.
        final_learning_rate: At the end of phase 2.
        muon_learning_rate: Of Muon, beside `learning_rate` and in proportion to it; None takes AdamW for everything.
        habit_learning_rate: At the start of phase 3; it falls to `final_learning_rate`.
        observation_weight: Of the language-model loss on what the environment says.
        max_grad_norm: Gradients are clipped to this norm.
    """

    seed: int = 0
    copy_steps: int = 200
    expert_steps: int = 380
    habit_steps: int = 130
    batch_size: int = 32
    pool: int = 1
    copy_words: int = 24
    learning_rate: float = 3e-3
    final_learning_rate: float = 3e-4
    muon_learning_rate: float | None = None
    habit_learning_rate: float = 1e-3
    observation_weight: float = 0.5
    max_grad_norm: float = 1.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Conversations as ids, padded on the right.

    Attributes:
        ids: int64 [rows, tokens].
        replies: bool [rows, tokens], true for the ids of replies to imitate, their end of turn included.
        observations: bool [rows, tokens], true for what the environment says, and the marks of who speaks.
    """

    ids: torch.Tensor
    replies: torch.Tensor
    observations: torch.Tensor


def clone(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    config: CloningConfig,
    teach: Teach,
    report: Report | None = None,
) -> None:
    """Train `model` in place through the three phases.

    Args:
        model: A fresh model; see `build_model`.
        tokenizer: Its tokenizer.
        config: The settings.
        teach: Gives the demonstrations of phases 2 and 3.
        report: Told the loss after every step.
    """
    optimizers = make_optimizers(model, config.learning_rate, config.muon_learning_rate)
    high, low = config.learning_rate, config.final_learning_rate
    model.train()

    def fit(phase: str, losses: Iterator[Loss], steps: int, rate: Callable[[float], float]) -> None:
        for step, loss_of in enumerate(itertools.islice(losses, steps)):
            set_rate(optimizers, rate(step / steps))
            loss = loss_of()
            clip_and_step(optimizers, model, loss, config.max_grad_norm)
            if report is not None:
                report(phase, step + 1, loss.item())

    def demonstrated(phase: Literal["expert", "habits"], seed: int) -> Iterator[Loss]:
        for batch in _batches(teach(phase, seed), config, random.Random(seed)):
            yield partial(cloning_loss, model, encode_batch(tokenizer, batch), config.observation_weight)

    copying = _exercises(model, len(tokenizer), config)
    expert = demonstrated("expert", 2 * config.seed)
    habits = demonstrated("habits", 2 * config.seed + 1)
    fit("copy", copying, config.copy_steps, lambda done: high * min(1.0, 4 * done + 0.01))
    fit("expert", expert, config.expert_steps, partial(_cosine, high, low))
    fit("habits", habits, config.habit_steps, partial(_cosine, config.habit_learning_rate, low))
    model.eval()


def encode_batch(tokenizer: PreTrainedTokenizerBase, conversations: Sequence[Conversation]) -> Batch:
    """Encode conversations with the chat template and tell replies from observations."""
    texts = [tokenizer.apply_chat_template(messages, tokenize=False) for messages in conversations]
    encoded = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
    ids, real = encoded["input_ids"], encoded["attention_mask"].bool()
    speaks, ends = tokenizer.convert_tokens_to_ids("<|assistant|>"), tokenizer.eos_token_id
    replies, observations = [], []
    for tokens, messages in zip(ids.tolist(), conversations, strict=True):
        wanted = iter([message.get("weight", 1) > 0 for message in messages if message["role"] == "assistant"])
        talking, imitate = False, False
        reply, observation = [], []
        for token in tokens:
            reply.append(talking and imitate)
            observation.append(not talking)
            if token == speaks:
                talking, imitate = True, next(wanted)
            elif token == ends:
                talking = False
        replies.append(reply)
        observations.append(observation)
    return Batch(ids, torch.tensor(replies) & real, torch.tensor(observations) & real)


def cloning_loss(model: PreTrainedModel, batch: Batch, observation_weight: float) -> torch.Tensor:
    """Mean cross-entropy over reply ids, plus `observation_weight` times that over the others."""
    # Padding on the right of a causal model changes nothing before it, so no attention mask is needed.
    logits = model(batch.ids, use_cache=False).logits[:, :-1]
    losses = functional.cross_entropy(logits.flatten(0, 1), batch.ids[:, 1:].flatten(), reduction="none")
    reply, other = batch.replies[:, 1:].flatten(), batch.observations[:, 1:].flatten()
    return losses[reply].mean() + observation_weight * losses[other].mean()


def copying_loss(model: PreTrainedModel, words: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of repeating random words twice; their first occurrence, which nobody can foresee, is free.

    Args:
        model: The model.
        words: int64 [rows, words].
    """
    ids = words.repeat(1, 3)
    count = words.size(1)
    logits = model(ids, use_cache=False).logits[:, count:-1]
    return functional.cross_entropy(logits.flatten(0, 1), ids[:, count + 1 :].flatten())


def _exercises(model: PreTrainedModel, vocabulary: int, config: CloningConfig) -> Iterator[Loss]:
    generator = torch.Generator().manual_seed(config.seed)
    while True:
        words = torch.randint(vocabulary, (config.batch_size, config.copy_words), generator=generator)
        yield partial(copying_loss, model, words)


def _batches(
    demonstrations: Iterator[Conversation], config: CloningConfig, rng: random.Random
) -> Iterator[list[Conversation]]:
    """Yield batches of demonstrations that are about equally long, in random order."""
    size = config.batch_size
    while True:
        pool = list(itertools.islice(demonstrations, size * config.pool))
        if config.pool > 1:
            pool.sort(key=lambda messages: sum(len(message["content"]) for message in messages))
        batches = [pool[first : first + size] for first in range(0, len(pool), size)]
        rng.shuffle(batches)
        yield from batches


def _cosine(high: float, low: float, done: float) -> float:
    return low + (high - low) * 0.5 * (1 + math.cos(math.pi * done))


def make_optimizers(
    model: torch.nn.Module, learning_rate: float, muon_learning_rate: float | None
) -> list[torch.optim.Optimizer]:
    """Make the optimizers of a model.

    Muon (Jordan et al., 2024) takes steps whose singular values are all alike. Here it learns from a demonstration what
    AdamW learns from about one and a half.

    Args:
        model: Its parameters are trained.
        learning_rate: Of AdamW.
        muon_learning_rate: Of Muon, for matrices other than the embeddings; None leaves everything to AdamW.

    Raises:
        ValueError: PyTorch has no Muon.
    """
    matrices = [
        parameter
        for name, parameter in model.named_parameters()
        if muon_learning_rate is not None and parameter.ndim == 2 and "embed" not in name
    ]
    chosen = {id(parameter) for parameter in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    ]
    if muon_learning_rate is not None:
        if not hasattr(torch.optim, "Muon"):
            raise ValueError(f"muon_learning_rate needs PyTorch 2.9 or later, this is {torch.__version__}")
        optimizers.append(torch.optim.Muon(matrices, lr=muon_learning_rate, weight_decay=0.01))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group[_RELATIVE] = group["lr"] / learning_rate
    return optimizers


def set_rate(optimizers: Sequence[torch.optim.Optimizer], learning_rate: float) -> None:
    """Set AdamW's learning rate; Muon's goes up and down with it."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * group[_RELATIVE]


def clip_and_step(
    optimizers: Sequence[torch.optim.Optimizer], model: torch.nn.Module, loss: torch.Tensor, max_grad_norm: float
) -> None:
    """Take one step down the gradient of `loss`, whose norm over all parameters is clipped."""
    model.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    for optimizer in optimizers:
        optimizer.step()
