"""From rows of demonstrations to ids and labels, exactly as reinforcement learning will compose them.

TRL would render prompt and completion together and train on what follows the prompt. A chat template that treats the
last reply or old thinking in a special way then shows the model another context than it will have in reinforcement
learning. So the prompts come from `PromptBuilder`, and `SFTTrainer` gets ids. Rows are checked before, and grouped into
the episodes that they came from.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agent_r1_trainer.demos.file import DemoError
from agent_r1_trainer.prompts import Message, PromptBuilder, reply_text
from agent_r1_trainer.prompts.context_settings import ContextSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["IGNORED", "Encoded", "Limits", "Row", "encode_demonstrations", "episodes", "restore_identity"]


@dataclass(frozen=True)
class Row:
    """One turn.

    Attributes:
        prompt: The messages that the expert saw.
        reply: What it wrote.
        template: Arguments of the chat template, tools among them.
        episode: Rows of equal, successive keys are one episode.
        turn: Its number in the episode.
        continues: Whether the prompt is the one before, the reply to it and new messages.
    """

    prompt: list[Message]
    reply: str
    template: dict[str, Any] = field(default_factory=dict)
    episode: tuple[Any, ...] = ()
    turn: int = 0
    continues: bool = False


def episodes(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Row]]:
    """Group rows by `env` and `episode`; where these columns are missing, every row is an episode of its own.

    Raises:
        DemoError: A row is in another format.
    """
    read = (_read(row, number) for number, row in enumerate(rows))
    for _, group in groupby(read, key=lambda row: row.episode):
        yield list(group)


def restore_identity(row: Row, before: Row, messages: list[Message]) -> list[Message]:
    """Return a row's messages, as the very objects of the turn before where they continue it.

    A history that goes on is told from one that was rewritten by identity, which a file does not keep. Its rows say it
    instead, and what they say is checked: rows may have been filtered or edited.

    Args:
        row: The row.
        before: The row before it in the episode.
        messages: The messages of that turn.
    """
    count = len(messages)
    if not row.continues or row.turn != before.turn + 1 or row.prompt[:count] != messages:
        return list(row.prompt)
    answer, new = row.prompt[count], row.prompt[count + 1 :]
    if answer.get("role") != "assistant" or answer.get("content") != before.reply:
        return list(row.prompt)
    return [*messages, {**answer, "content": before.reply}, *new]


def _read(row: Mapping[str, Any], number: int) -> Row:
    prompt, completion = row.get("prompt"), row.get("completion")
    if not _are_messages(prompt) or not _are_messages(completion) or len(completion) != 1:  # type: ignore[arg-type]
        raise DemoError(
            f"row {number}: expected chat messages in `prompt` and one in `completion`, as `agent-r1 demos` writes them"
        )
    template = {k: v for k, v in (row.get("chat_template_kwargs") or {}).items() if v is not None}
    tools = row.get("tools")
    if tools:
        template["tools"] = json.loads(tools) if isinstance(tools, str) else tools
    known = "episode" in row
    return Row(
        prompt=[dict(message) for message in prompt],  # type: ignore[union-attr]
        reply=str(completion[0].get("content") or ""),  # type: ignore[index]
        template=template,
        episode=(row.get("env"), row["episode"]) if known else (number,),
        turn=int(row.get("turn", 0)),
        continues=known and bool(row.get("continues", False)),
    )


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(m, Mapping) and "role" in m for m in value)


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
