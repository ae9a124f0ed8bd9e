"""Text that is safe to show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.text import clean, cut, echo, is_unicode

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


@given(ANY_TEXT, st.integers(0, 20))
def test_cleaned_text_is_valid_and_short(text: str, length: int) -> None:
    shown = clean(text, length)
    shown.encode("utf-8")
    assert len(shown) <= length
    assert clean(shown, length) == shown
    assert len(clean(text)) == len(text)


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs"))))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text == cut(text, len(text))


def test_line_breaks_and_tabs_stay_in_observations() -> None:
    assert clean("a\r\n\tb\x0bc\x00\x7f\x85\ud800") == "a\r\n\tb\ufffdc\ufffd\ufffd\ufffd\ufffd"


@given(ANY_TEXT)
def test_an_echo_is_one_short_line(text: str) -> None:
    shown = echo(text)
    shown.encode("utf-8")
    assert len(shown) <= 200
    assert len(shown.splitlines()) <= 1
    assert shown.isprintable() or not any(ord(char) < 32 for char in shown)


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abc", 1, "…"), ("abc", 0, ""), ("", 0, "")],
)
def test_cuts_are_marked(text: str, length: int, expected: str) -> None:
    assert cut(text, length) == expected


def test_an_echo_of_a_giant_is_cheap_and_cut() -> None:
    assert echo("x" * 10**6) == "x" * 199 + "…"


@given(ANY_TEXT)
def test_unicode_is_what_utf8_can_encode(text: str) -> None:
    try:
        text.encode("utf-8")
        valid = True
    except UnicodeEncodeError:
        valid = False
    assert is_unicode(text) == valid
