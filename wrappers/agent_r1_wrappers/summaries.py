"""A summary without a model: what was done, and the part of each answer that has most to do with the task."""

import re
from collections.abc import Sequence

from agent_r1_envs.spaces import Message
from agent_r1_envs.text import cut
from agent_r1_wrappers.fitting import split_turns

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
