import pytest
from agent_r1_wrappers import ParseTags

from tests.helpers.text_envs import RoomsEnv


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("<think>to the cellar</think><action>go to cellar</action>", "go to cellar"),
        ("<think>a</think>\n<Action>\n go to cellar \n</Action> done", "go to cellar"),
        ("I could <action>go to hall</action> but</think><action>go to cellar</action>", "go to cellar"),
        ("<action>search[3 < 4 > 2]</action>", "search[3 < 4 > 2]"),
    ],
)
def test_reads(reply, command):
    assert ParseTags(RoomsEnv()).parse(reply) == command


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("go to cellar", "there is no <action>...</action> in the reply"),
        ("<action>a</action><action>b</action>", "there are 2 <action> elements, give one"),
        ("<action>go to cel", "<action> is not closed by </action>"),
        ("<think>hm <action>a</action>", "<think> is not closed by </think>"),
        ("<action> </action>", "<action> is empty"),
    ],
)
def test_explains(reply, reason):
    assert ParseTags(RoomsEnv()).parse(reply).reason == reason


def test_thinking_may_be_required():
    form = ParseTags(RoomsEnv(), require_think=True)
    assert form.parse("<action>a</action>").reason == "there is no <think>...</think> before the action"
    assert form.parse("so</think><action>a</action>") == "a"


def test_tags_are_chosen():
    form = ParseTags(RoomsEnv(), think="reason", action="command", unclosed="accept")
    assert form.parse("<reason>x</reason><command>go to hall") == "go to hall"
    assert form.format("go to hall", "x") == "<reason>x</reason>\n<command>go to hall</command>"
    assert "<reason>...</reason>" in form.instruction() and "<command>" in form.instruction()


@pytest.mark.parametrize(
    "arguments", [{"think": "action"}, {"action": "a b"}, {"unclosed": "maybe"}, {"think": None, "require_think": True}]
)
def test_refuses(arguments):
    with pytest.raises(ValueError):
        ParseTags(RoomsEnv(), **arguments)
