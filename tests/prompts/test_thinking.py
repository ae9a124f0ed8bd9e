"""Taking thinking out of replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_trainer.prompts import strip_messages, strip_thinking
from agent_r1_trainer.prompts.thinking import leaves_thinking_open


@pytest.mark.parametrize(
    ("reply", "opened", "answer"),
    [
        ("search[a]", False, "search[a]"),
        ("<think>b</think>search[a]", False, "search[a]"),
        ("<think>\nb\n</think>\n\nsearch[a]\n", False, "search[a]\n"),
        ("b</think>\n\nsearch[a]", True, "search[a]"),
        ("<think>b", False, ""),
        ("so <think>b", False, "so "),
        ("b", True, ""),
        ("<think>b</think>c<think>d</think>e", False, "e"),
        ("<think>b</think>c<think>d", False, "c"),
        ("", False, ""),
    ],
)
def test_strip_thinking(reply, opened, answer):
    assert strip_thinking(reply, opened) == answer


@given(st.lists(st.sampled_from(["<think>", "</think>", "a", "\n", " "]), max_size=12).map("".join))
def test_nothing_is_left_to_strip(reply):
    answer = strip_thinking(reply)
    assert "<think>" not in answer and "</think>" not in answer
    assert strip_thinking(answer) == answer
    assert reply.rstrip("\n").endswith(answer.rstrip("\n")) or "<think>" in reply


def test_strip_messages_leaves_others_alone():
    user, plain = {"role": "user", "content": "<think>x</think>y"}, {"role": "assistant", "content": "z"}
    parts = {"role": "assistant", "content": [{"type": "text", "text": "<think>"}]}
    thinking = {"role": "assistant", "content": "<think>x</think>y", "reasoning_content": "x", "name": "n"}
    stripped = strip_messages([user, plain, parts, thinking])
    assert stripped[0] is user and stripped[1] is plain and stripped[2] is parts
    assert stripped[3] == {"role": "assistant", "content": "y", "name": "n"}
    assert thinking["content"] == "<think>x</think>y"


@pytest.mark.parametrize(
    ("prompt", "open_"),
    [("a<think>\n", True), ("a<think>\n\n</think>\n\n", False), ("a", False), ("<think></think><think>", True)],
)
def test_leaves_thinking_open(prompt, open_):
    assert leaves_thinking_open(prompt) is open_
