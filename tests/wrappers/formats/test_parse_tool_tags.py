import pytest
from agent_r1_wrappers import ParseTags, ParseToolTags, WrapperOrderError

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.linear import linear_time
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


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("<think>x</think><friend>a</friend> <city>b</city>", "friend[a]"),
        ("<friend>a</friend> <city>b", "friend[a]"),
        ("<friend>a</friend></city></think>", "friend[a]"),
        ("<think>I try <friend>a</friend> and think", "friend[a]"),
        ("<city>a <answer>b</answer></city>", "answer[b]"),
        ("<friend>a <friend>b</friend>", "friend[a <friend>b]"),
    ],
)
def test_the_first_call_counts_whatever_follows(reply, command):
    form = ParseToolTags(DirectoryEnv(), first_only=True)
    assert form.parse(reply) == command
    stops = [reply.find(stop) + len(stop) for stop in form.stop_strings if stop in reply]
    assert form.parse(reply[: min(stops)]) == command, "as where generation ends there"


def test_the_first_call_says_where_a_reply_ends():
    env = ParseToolTags(DirectoryEnv(), tags={"search": "friend", "done": "answer"}, first_only=True)
    assert env.reset(seed=0)[1]["stop_strings"] == ["</search>", "</done>"]
    assert "stop_strings" not in ParseToolTags(DirectoryEnv()).reset(seed=0)[1]
    assert "stop_strings" not in ParseTags(env).reset(seed=0)[1], "the outermost format reads the reply"
    assert env.parse("<search>a").reason == "<search> is not closed by </search>"
    assert env.parse("a</search><search>b</search>").reason == "</search> has no <search> before it"
    assert env.parse("<search> </search>").reason == "<search> is empty"
    assert env.parse("a").reason.startswith("there is no <search>")
    assert ParseToolTags(DirectoryEnv(), first_only=True, unclosed="accept").parse("<city>a") == "city[a]"
    for text in ("a", "</search>", "<done>x</done>", " b "):
        command = f"friend[{text}]"
        assert env.parse(env.format(command, "<search>no</search>")) == env.parse(env.format(command))
    with pytest.raises(ValueError, match="one call, not 2"):
        env.format("friend[a]\nfriend[b]")
    with linear_time():
        env.parse("<search>" * 30_000 + "</done>")


def test_refuses():
    with pytest.raises(WrapperOrderError, match="ParseTags for plain commands"):
        ParseToolTags(RoomsEnv())
    with pytest.raises(ValueError, match="no tool 'fly'"):
        ParseToolTags(DirectoryEnv(), tags={"fly": "fly"})
    with pytest.raises(ValueError, match="unclosed"):
        ParseToolTags(DirectoryEnv(), unclosed="maybe")
