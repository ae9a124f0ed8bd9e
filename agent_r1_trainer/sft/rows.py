"""Rows of demonstrations, checked, and grouped into episodes again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from agent_r1_trainer.demos.file import DemoError
from agent_r1_trainer.prompts import Message

__all__ = ["Row", "episodes", "restore_identity"]


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
