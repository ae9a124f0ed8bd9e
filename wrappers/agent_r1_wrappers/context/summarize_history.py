"""A summary in place of the oldest turns.

Without a model it says what was done, and the part of each answer that has most to do with the task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.spaces import Message
from agent_r1_envs.text import clean, cut
from agent_r1_wrappers.callables import load_callable, recordable
from agent_r1_wrappers.context.context_operation import ContextOperation
from agent_r1_wrappers.fitting import join_turns, split_turns
from agent_r1_wrappers.stack import WrapperState

_REPLY_LENGTH = 120
_SENTENCE_LENGTH = 240
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WORD = re.compile(r"\w{3,}")
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)


def extractive(messages: Sequence[Message]) -> str:
    """Summarise turns in one line each: the reply, cut, and the sentence that shares most words with the task.

    Args:
        messages: A conversation from its beginning. The observation before the first reply is taken for the task.

    Returns:
        One line a turn.
    """
    head, turns = split_turns(messages)
    task = _words(" ".join(message["content"] for message in head if message["role"] != "system"))
    return "\n".join(_line(turn, task) for turn in turns)


def _line(turn: Sequence[Message], task: set[str]) -> str:
    reply = _one_line(_THINKING.sub("", turn[0]["content"]))
    answer = " ".join(message["content"] for message in turn[1:])
    sentences = [match[0] for match in _SENTENCE.finditer(answer) if match[0].strip()]
    # The first of the best: ties go to what was said first.
    best = max(sentences, key=lambda sentence: len(_words(sentence) & task), default="")
    return f"- {cut(reply, _REPLY_LENGTH)} -> {cut(_one_line(best), _SENTENCE_LENGTH)}"


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True)
class _Summary(WrapperState):
    """The message that stands for the hidden turns, and what these said."""

    hidden: tuple[tuple[str, str], ...]
    message: Message


class SummarizeHistory(ContextOperation, RecordConstructorArgs):
    """Hides the oldest turns behind a summary, which follows the first observation in the same message.

    When more than ``after_turns`` turns are shown, all but the last ``keep_turns`` and the newest one are summarised;
    until that happens again, prompts grow by appending. Each summary is made afresh from the whole hidden part, so
    nothing is summarised twice.

    Args:
        env: An env that emits chat messages.
        summarize: What makes a summary: a callable or ``"module:function"`` from messages to text. It gets the
            conversation from its beginning, system message and first observation included, up to the last hidden turn.
            The default takes one sentence out of each answer (`extractive`).
        after_turns: The most turns that are shown in full.
        keep_turns: How many of the turns before the newest one are still shown in full after a summary.
        heading: What precedes the summary.

    Raises:
        WrapperOrderError: If ``env`` does not emit chat messages.
        ValueError: Unless ``0 <= keep_turns < after_turns``.
    """

    def __init__(
        self,
        env: gymnasium.Env[list[Message], str],
        *,
        summarize: str | Callable[[Sequence[Message]], str] = "agent_r1_wrappers.context.summarize_history:extractive",
        after_turns: int = 8,
        keep_turns: int = 4,
        heading: str = "Summary of the turns so far:",
    ) -> None:
        summarize = recordable(summarize)
        RecordConstructorArgs.__init__(
            self, summarize=summarize, after_turns=after_turns, keep_turns=keep_turns, heading=heading
        )
        super().__init__(env)
        if not 0 <= keep_turns < after_turns:
            raise ValueError(f"0 <= keep_turns < after_turns is needed, got {keep_turns} and {after_turns}")
        self._summarize = load_callable(summarize, "summarize")
        self._after_turns = after_turns
        self._batch = after_turns - keep_turns
        self._heading = heading
        self._last: _Summary | None = None

    def begin(self) -> None:
        """Forget the summary of the last episode."""
        self._last = None

    def rewrite(self, messages: list[Message], info: dict[str, Any]) -> list[Message]:
        """Return the head with the summary, and the turns that are shown."""
        head, turns = split_turns(messages)
        excess = len(turns) - self._after_turns
        hidden = self._batch * -(-excess // self._batch) if excess > 0 else 0
        if hidden == 0 or not head:
            return messages
        summarised = join_turns(head, turns[:hidden])
        key = tuple((message["role"], message["content"]) for message in summarised)
        if self._last is None or self._last.hidden != key:
            self._last = _Summary(key, self._message(head[-1], self._summarize(summarised)))
        return join_turns([*head[:-1], self._last.message], turns[hidden:])

    def get_wrapper_state(self) -> _Summary | None:
        """Return the summary, for a snapshot."""
        return self._last

    def set_wrapper_state(self, state: _Summary | None) -> None:
        """Go back to a summary that :meth:`get_wrapper_state` returned."""
        self._last = state

    def _message(self, first: Message, summary: str) -> Message:
        return {**first, "content": f"{first['content']}\n\n{self._heading}\n{clean(summary)}"}
