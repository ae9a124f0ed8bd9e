"""From rows of demonstrations to ids and labels, exactly as reinforcement learning will compose them.

TRL would render prompt and completion together and train on what follows the prompt. A chat template that treats the
last reply or old thinking in a special way then shows the model another context than it will have in reinforcement
learning. So the prompts come from `PromptBuilder`, and `SFTTrainer` gets ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agent_r1_trainer.demos.file import DemoError
from agent_r1_trainer.prompts import Message, PromptBuilder, reply_text
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.sft.rows import Row, episodes, restore_identity

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["IGNORED", "Encoded", "Limits", "encode_demonstrations"]

IGNORED = -100
"""The label of tokens that are not trained on."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Lengths in tokens; None is no limit.

    Attributes:
        prompt: Longest prompt.
        completion: Longest reply, with the end of the turn.
        sequence: Longest sequence.
    """

    prompt: int | None = None
    completion: int | None = None
    sequence: int | None = None


@dataclass
class Encoded:
    """Sequences to train on.

    Attributes:
        input_ids: int32 [tokens] each.
        labels: The same ids where they are a reply or the end of its turn, `IGNORED` elsewhere.
        turns: Turns trained on.
        left_out: Why other turns are not, with their number.
    """

    input_ids: list[npt.NDArray[np.int32]] = field(default_factory=list)
    labels: list[npt.NDArray[np.int32]] = field(default_factory=list)
    turns: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def encode_demonstrations(
    rows: Iterable[Mapping[str, Any]],
    tokenizer: PreTrainedTokenizerBase,
    *,
    stop_ids: Sequence[int],
    context: ContextSettings | None = None,
    limits: Limits | None = None,
    merge: bool = True,
) -> Encoded:
    """Encode rows; nothing is ever cut.

    A turn is left out if its reply is too long or holds what the tokenizer cannot write; it stays in the context of the
    turns after it. An episode ends before a prompt that is too long, as it does in reinforcement learning.

    Args:
        rows: `prompt` and `completion` as chat messages, and the other columns of `Demonstration.rows` as far as they
            are there; the rows of an episode one after the other.
        tokenizer: Of the policy.
        stop_ids: Ids that end a reply, the usual one first.
        context: How the policy is shown its context in reinforcement learning.
        limits: Lengths.
        merge: Whether turns whose prompt continues the one before become one sequence, each token once.

    Raises:
        DemoError: Rows in another format, or no turn is left.
        PromptError: The chat template refuses the messages.
    """
    context, limits = context or ContextSettings(), limits or Limits()
    encoded = Encoded()
    for episode in episodes(rows):
        template = {**context.chat_template_kwargs, **episode[0].template}
        builder = PromptBuilder(tokenizer, chat_template_kwargs=template, history_thinking=context.history_thinking)
        _encode_episode(episode, builder, tokenizer, stop_ids, limits, merge, encoded)
    if not encoded.input_ids:
        reasons = ", ".join(f"{count} turns: {reason}" for reason, count in encoded.left_out.items())
        raise DemoError(f"there is no turn to train on ({reasons or 'no rows'})")
    return encoded


def _encode_episode(
    episode: Sequence[Row],
    builder: PromptBuilder,
    tokenizer: PreTrainedTokenizerBase,
    stop_ids: Sequence[int],
    limits: Limits,
    merge: bool,
    encoded: Encoded,
) -> None:
    messages: list[Message] = list(episode[0].prompt)
    prompt, extends = builder.first(messages), False
    ids: list[int] = []
    labels: list[int] = []
    reply: list[int] = []
    for number, row in enumerate(episode):
        if number:
            before = episode[number - 1]
            messages = restore_identity(row, before, messages)
            prompt, extends = builder.next(messages, before.reply, reply)
        reply = builder.reply_ids(row.reply, stop_ids)
        if _above(len(prompt), limits.prompt) or _above(len(prompt) + len(reply), limits.sequence):
            encoded.left_out["the prompt is too long"] += len(episode) - number
            break
        problem = _problem(row.reply, reply, tokenizer, stop_ids, limits)
        if builder.forges_turns(row.reply):
            problem = "the reply holds marks of turns"
        if problem:
            encoded.left_out[problem] += 1
        if not (merge and extends):
            _add(encoded, ids, labels)
            ids, labels = [], []
        labels += [IGNORED] * (len(prompt) - len(ids)) + ([IGNORED] * len(reply) if problem else reply)
        ids = prompt + reply
        encoded.turns += not problem
    _add(encoded, ids, labels)


def _add(encoded: Encoded, ids: list[int], labels: list[int]) -> None:
    if any(label != IGNORED for label in labels):
        encoded.input_ids.append(np.asarray(ids, dtype=np.int32))
        encoded.labels.append(np.asarray(labels, dtype=np.int32))


def _problem(
    text: str, ids: Sequence[int], tokenizer: PreTrainedTokenizerBase, stop_ids: Sequence[int], limits: Limits
) -> str:
    """Why a reply cannot be trained on, or nothing."""
    if _above(len(ids), limits.completion):
        return "the reply is too long"
    if reply_text(tokenizer, ids, stop_ids) != text or set(ids[:-1]) & set(stop_ids):
        return "the tokenizer cannot write the reply"
    return ""


def _above(length: int, limit: int | None) -> bool:
    return limit is not None and length > limit
