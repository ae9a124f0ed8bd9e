import contextlib

import pytest
from agent_r1_wrappers.formats.tags import TagError, Tagged, Tags
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.linear import linear_time

TAGS = Tags(["search", "answer"])
PIECES = ["<search>", "</search>", "<SEARCH>", "<think>", "</think>", '<search xml:space="preserve">', "<\\/search>",
          "<", ">", "/", "\\", " ", "\n", "search", "é", "\u2028", "\x1c", "😀", "&lt;", "[", "]"]  # fmt: skip
TEXT = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


@given(TEXT, TEXT)
def test_reads_back_what_it_writes(first, second):
    reply = TAGS.write("search", first) + " prose " + TAGS.write("answer", second)
    assert TAGS.read(reply) == [Tagged("search", first), Tagged("answer", second)]


@given(TEXT, TEXT)
def test_thinking_hides_what_it_holds(thought, text):
    reply = "<think>" + TAGS.escape(thought) + "</think>" + TAGS.write("search", text)
    assert TAGS.read(reply) == [Tagged("search", text)]


@given(TEXT)
def test_escaping_is_undone_and_rare(text):
    assert TAGS.unescape(TAGS.escape(text)) == text
    if "<" not in text:
        assert TAGS.escape(text) == text


@pytest.mark.parametrize(
    ("reply", "elements"),
    [
        ("<search> Paris \n</search>", [("search", "Paris")]),
        ("<Search>Paris</SEARCH>", [("search", "Paris")]),
        ("a <search>x</search> b <search>y</search> c", [("search", "x"), ("search", "y")]),
        ("I might <search>a</search></think><search>b</search>", [("search", "b")]),
        ("<think><search>a</think>", []),
        ("no tags, 3 < 4 > 2", []),
    ],
)
def test_reads(reply, elements):
    assert [(e.name, e.text) for e in TAGS.read(reply)] == elements


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("<search>x", "<search> is not closed by </search>"),
        ("x</search>", "</search> has no <search> before it"),
        ("<search>x</answer>", "<search> is followed by </answer> before it is closed"),
        ("<search><answer>x</answer></search>", "<search> is followed by <answer>"),
        ("<search> \n</search>", "<search> is empty"),
        ("<think>so <search>x</search>", "<think> is not closed by </think>"),
    ],
)
def test_explains(reply, reason):
    with pytest.raises(TagError) as caught:
        TAGS.read(reply)
    assert reason in str(caught.value)


def test_the_last_tag_may_be_left_open():
    assert TAGS.read("<search>x</search><answer> y", unclosed=True) == [Tagged("search", "x"), Tagged("answer", "y")]


def test_without_thinking():
    tags = Tags(["act"], think=None)
    assert tags.read("<think><act>x</act>") == [Tagged("act", "x")]


@pytest.mark.parametrize("names", [[], ["a b"], ["x", "X"], ["think"], ["<x>"]])
def test_refuses_bad_names(names):
    with pytest.raises(ValueError, match="tag"):
        Tags(names)


@given(TEXT)
def test_never_raises_anything_else(reply):
    try:
        TAGS.read(reply)
    except TagError as error:
        assert str(error)


@pytest.mark.parametrize("piece", ["<search>", "</search>", "<search></search>", "<", "<\\", "<think>", " ", "a"])
def test_takes_linear_time(piece):
    with linear_time(), contextlib.suppress(TagError):
        TAGS.read(piece * (1_000_000 // len(piece)))
