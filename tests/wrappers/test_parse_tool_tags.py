import pytest
from agent_r1_wrappers import ParseToolTags, WrapperOrderError

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import RoomsEnv


def test_each_tool_with_a_single_text_has_a_tag():
    form = ParseToolTags(DirectoryEnv())
    assert form.parse("<think>x</think><friend>Zoë</friend> and <city>Noël</city>") == "friend[Zoë]\ncity[Noël]"
    assert form.parse("<answer> Köln </answer>") == "answer[Köln]"
    assert form.format("friend[Zoë]", "hm") == "<think>hm</think>\n<friend>Zoë</friend>"
    assert "<finish>" not in form.instruction()


def test_tags_are_chosen():
    form = ParseToolTags(DirectoryEnv(), tags={"search": "friend"}, think=None)
    assert form.parse("<search>Zoë</search>") == "friend[Zoë]"
    assert form.format("friend[Zoë]") == "<search>Zoë</search>"
    assert form.instruction() == "Act with:\n- <search>person</search>: Say who somebody's friend is."


def test_explains():
    form = ParseToolTags(DirectoryEnv(), tags={"search": "friend", "done": "answer"})
    assert form.parse("Zoë").reason == "there is no <search>...</search> or <done>...</done> in the reply"
    assert form.parse("<search>Zoë</done>").reason == "<search> is followed by </done> before it is closed"
    assert form.parse("<search>a</search>" * 100).reason == "there are 100 calls in the reply"


def test_what_no_tag_can_hold_is_not_formatted():
    form = ParseToolTags(DirectoryEnv())
    for command in ('{"name": "note", "arguments": {"text": "a", "times": 2}}', "fly[away]", "no call"):
        with pytest.raises(ValueError):
            form.format(command)


def test_refuses():
    with pytest.raises(WrapperOrderError, match="ParseTags for plain commands"):
        ParseToolTags(RoomsEnv())
    with pytest.raises(ValueError, match="no tool 'fly'"):
        ParseToolTags(DirectoryEnv(), tags={"fly": "fly"})
    with pytest.raises(ValueError, match="unclosed"):
        ParseToolTags(DirectoryEnv(), unclosed="maybe")
