import pytest
from agent_r1_wrappers import ParseReAct

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import RoomsEnv


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("Thought: who?\nAction: friend[Zoë]", "friend[Zoë]"),
        (
            "Thought 1: who?\nAction 1: Friend[Zoë]\nObservation 1: Noël\nThought 2: y\nAction 2: city[Noël]",
            "friend[Zoë]",
        ),
        ("**Thought:** who?\n**Action:** friend[Zoë]\nI wait.", "friend[Zoë]"),
        ("Action: friend\nAction Input: Zoë", "friend[Zoë]"),
        ('action: Friend\naction input: "Zoë"', "friend[Zoë]"),
        ("Action: friend\nAction Input: {'person': 'Zoë'}\n", "friend[Zoë]"),
        ("Action: note\nAction Input: two\nlines", '{"name": "note", "arguments": {"text": "two\\nlines"}}'),
        ("Action:\nfriend[Zoë]", "friend[Zoë]"),
        ("Action: friend[Zoë]\nAction: city[Zoë]", "friend[Zoë]\ncity[Zoë]"),
        ("Thought: done\nFinal Answer: Köln", "answer[Köln]"),
        ("Action: Finish[Köln]", "finish[Köln]"),
    ],
)
def test_reads_calls(reply, command):
    assert ParseReAct(DirectoryEnv()).parse(reply) == command


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("Thought: x\nAction: go to cellar", "go to cellar"),
        ("Action: search\nAction Input: red shoes", "search[red shoes]"),
        ("Action: Search[x]", "Search[x]"),
        ('Action: "two\\nlines"', "two\nlines"),
    ],
)
def test_reads_plain_commands(reply, command):
    assert ParseReAct(RoomsEnv()).parse(reply) == command


def test_explains():
    form = ParseReAct(RoomsEnv())
    assert form.parse("go to cellar").reason == "there is no line 'Action: ...' in the reply"
    assert form.parse("Observation: x\nAction: a").reason == "there is no line 'Action: ...' in the reply"
    assert form.parse("Action: a\nAction: b").reason == "there are 2 actions, give one"
    assert form.parse("Action: ").reason == "the action is empty"
    assert "not both" in form.parse("Action: search[x]\nAction Input: y").reason
    assert form.parse("Action: a\n" * 300).reason == "there are 300 thoughts and actions"


def test_formats():
    form = ParseReAct(DirectoryEnv())
    assert form.format("friend[Zoë]\ncity[Zoë]", "a\nAction: b") == (
        "Thought: a\n> Action: b\nAction: friend[Zoë]\nAction: city[Zoë]"
    )
    assert ParseReAct(RoomsEnv()).format("two\nlines") == 'Action: "two\\nlines"'
