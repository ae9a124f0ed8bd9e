"""What all action formats promise."""

import json

import gymnasium
import pytest
from agent_r1_wrappers import ParseReAct, ParseTags, ParseToolCalls, ParseToolTags
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_r1_envs.actions import MalformedAction
from agent_r1_envs.tools import Call, format_calls
from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.linear import linear_time
from tests.helpers.text_envs import ROOMS, ParrotEnv, RoomsEnv

TOOL_ENV, HOUSE, PARROT = DirectoryEnv(), RoomsEnv(), ParrotEnv()
EVERY = {
    "tags on tools": ParseTags(TOOL_ENV),
    "tags": ParseTags(HOUSE),
    "tags without thinking": ParseTags(PARROT, think=None, action="do-it", unclosed="accept"),
    "tags with thinking": ParseTags(PARROT, require_think=True),
    "tool tags": ParseToolTags(TOOL_ENV),
    "tool calls on tools": ParseToolCalls(TOOL_ENV),
    "tool calls": ParseToolCalls(HOUSE),
    "finishing tool calls": ParseToolCalls(TOOL_ENV, no_call="finish"),
    "react on tools": ParseReAct(TOOL_ENV),
    "react": ParseReAct(HOUSE),
}
PLAIN = {name: form for name, form in EVERY.items() if "on tools" not in name and "finishing" not in name}
del PLAIN["tool tags"]
PIECES = [
    *("<action>", "</action>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<friend>", "</friend>"),
    *("Action:", "\nAction: x", "\nObservation: y", "Thought:", "Action Input:", "Final Answer:", "<\\/action>"),
    *('"', "'", "\\", "[", "]", "{", "}", ",", "\n", " ", "\t", "\r", "\x1c", "\x85", "\u2028", "é", "漢", "😀"),
    *('<action xml:space="preserve">', "friend[", "note", "`" * 3, "\\u003c", "&lt;", "**", "null"),
]
TEXT = st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
ARGUMENTS = st.fixed_dictionaries({"text": TEXT}, optional={"times": st.integers() | st.floats(allow_nan=False)})
CALL = st.one_of(
    st.builds(lambda text: Call("friend", {"person": text}), TEXT),
    st.builds(lambda text: Call("city", {"person": text}), TEXT),
    st.builds(lambda arguments: Call("note", arguments), ARGUMENTS),
)


def assert_same(form, command, thought):
    parsed = form.parse(form.format(command, thought))
    assert parsed == command and not isinstance(parsed, MalformedAction), form.format(command, thought)


@pytest.mark.parametrize(
    "reply",
    ["<action>friend[\ud800]</action>", "<friend>\ud800</friend>", 'Action: "friend[\\ud800]"',
     '<tool_call>{"name": "friend", "arguments": {"person": "\\ud800"}}</tool_call>'],
)  # fmt: skip
def test_a_command_that_is_no_unicode_is_malformed(reply):
    read = 0
    for form in EVERY.values():
        form.reset(seed=0)
        info = form.step(reply)[-1]
        json.dumps(info, ensure_ascii=False).encode("utf-8")
        read += "half of a surrogate pair" in info.get("invalid_action", "")
    assert read


@pytest.mark.parametrize("form", PLAIN.values(), ids=PLAIN)
@settings(max_examples=200, deadline=None)
@given(command=TEXT, thought=TEXT)
@example(command=" a\n", thought="")
@example(command="</action>", thought="</think><action>x</action>")
def test_parse_undoes_format_for_any_command(form, command, thought):
    if isinstance(form, ParseReAct) and not command:
        return  # an empty command has no form there; no env has one either
    assert_same(form, command, thought)


@pytest.mark.parametrize("name", ["tags on tools", "tool calls on tools", "finishing tool calls", "react on tools"])
@settings(max_examples=200, deadline=None)
@given(calls=st.lists(CALL, min_size=1, max_size=4), thought=TEXT)
def test_parse_undoes_format_for_any_calls(name, calls, thought):
    if any(value in (float("inf"), float("-inf")) for call in calls for value in call.arguments.values()):
        return  # no JSON
    assert_same(EVERY[name], format_calls(calls, TOOL_ENV.tools), thought)


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(TEXT, min_size=1, max_size=4), thought=TEXT)
def test_parse_undoes_format_for_tool_tags(texts, thought):
    calls = [Call("friend", {"person": text}) for text in texts]
    assert_same(EVERY["tool tags"], format_calls(calls, TOOL_ENV.tools), thought)


@pytest.mark.parametrize("form", EVERY.values(), ids=EVERY)
@settings(max_examples=300, deadline=None)
@given(reply=TEXT | st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=30).map("".join))
def test_no_reply_raises(form, reply):
    parsed = form.parse(reply)
    assert isinstance(parsed, str)
    if isinstance(parsed, MalformedAction):
        assert parsed == reply and parsed.reason


@pytest.mark.parametrize("form", EVERY.values(), ids=EVERY)
def test_replies_of_a_megabyte_take_linear_time(form):
    openings = [
        "",
        "<tool_call>",
        '<tool_call>{"name": "',
        "<tool_call>{'a':",
        "<action>",
        "<think>",
        "Action: ",
        "a</think>",
    ]
    pieces = [
        *("<tool_call>", "<tool_call>{", "</tool_call>", "<action>", "</think>", "<", "<friend>a</friend>", "é"),
        *("[", "{'a':", '{"a":', "{},", "\n", " ", "*", "\\", '"', "'"),
        *("Action:\n", "Action: x\nAction Input: {\n"),
    ]
    for number, piece in enumerate(pieces):
        reply = openings[number % len(openings)] + piece * (1_000_000 // len(piece))
        with linear_time((piece, openings[number % len(openings)])):
            assert isinstance(form.parse(reply), str)


@pytest.mark.parametrize("form", EVERY.values(), ids=EVERY)
def test_a_reply_without_a_command_reaches_the_env_with_its_reason(form):
    form.reset(seed=0)
    if form is EVERY["finishing tool calls"]:
        return
    _, _, terminated, _, info = form.step("I do not know.")
    assert not terminated
    assert info["invalid_action"] == form.parse("I do not know.").reason
    assert "action" not in info


@pytest.mark.parametrize("form", EVERY.values(), ids=EVERY)
def test_what_is_no_string_is_malformed(form):
    form.reset(seed=0)
    *_, info = form.step(7)
    assert info["invalid_action"] == "a reply is a string, got int"


def test_the_env_counts_a_malformed_reply_and_stays_as_it_was():
    form = ParseTags(RoomsEnv())
    form.reset(seed=0)
    before = form.unwrapped.get_state()
    observation, reward, *_, info = form.step("go to cellar")
    assert (observation, reward) == ("Nothing happens.", 0.0)
    assert form.unwrapped.get_state() == {**before, "turn": 1}
    assert info["invalid_action"] == "there is no <action>...</action> in the reply"


def test_info_says_what_the_env_got():
    form = ParseTags(RoomsEnv())
    form.reset(options={"task": "cellar"})
    *_, terminated, _, info = form.step("<action>go to cellar</action>")
    assert terminated and info["action"] == "go to cellar" and "invalid_action" not in info


def test_formats_nest_and_the_innermost_command_is_reported():
    form = ParseTags(ParseToolCalls(DirectoryEnv()))
    _, info = form.reset(seed=0)
    assert info["format_instruction"].index("<tools>") < info["format_instruction"].index("<action>")
    call = '<tool_call>{"name": "city", "arguments": {"person": "Zoë"}}</tool_call>'
    observation, *_, info = form.step(f"<think>hm</think><action>{call}</action>")
    assert info["action"] == "city[Zoë]" and "Århus" in observation
    *_, info = form.step("nothing")
    assert info["invalid_action"] == "there is no <action>...</action> in the reply"


def test_an_env_of_others_gets_the_reply_as_a_string():
    form = ParseTags(ParrotEnv())
    form.reset()
    observation, *_, info = form.step("<action> hello </action>")
    assert observation == "It says: HELLO" and info == {"action": "hello"}
    observation, *_, info = form.step("hi there")
    assert observation == "It says: HI THERE" and set(info) == {"invalid_action"}


def test_the_instruction_is_given_unless_it_is_unwanted():
    for quiet in (
        ParseTags(HOUSE, instruct=False),
        ParseToolCalls(HOUSE, schemas="none"),
        ParseReAct(HOUSE, instruct=False),
    ):
        assert "format_instruction" not in quiet.reset(seed=0)[1]
    assert "- friend[person]: Say who somebody's friend is." in ParseReAct(TOOL_ENV).instruction()
    assert "finish" not in ParseTags(TOOL_ENV).instruction()  # an alias of answer is not shown twice


def test_replies_are_the_action_space():
    form = ParseTags(gymnasium.make(ROOMS))
    assert form.format("x" * 100_000) in form.action_space
    assert form.observation_space == form.env.observation_space
