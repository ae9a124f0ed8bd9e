"""Reading of actions, beside the regular expression by which the original does it."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.webshop.pages.actions import admissible, clickable, parse_action

PIECES = st.sampled_from(["search", "click", "[", "]", "[[", "]]", " ", "\n", "\r", "\u2028", "a", "B", "İ", "buy now"])


@given(st.lists(PIECES, max_size=12).map("".join) | st.text())
def test_as_the_regular_expression(action: str) -> None:
    match = re.match(r"(.+)\[(.+)\]", action)
    assert parse_action(action) == (None if match is None else (match[1], match[2].lower()))


@pytest.mark.parametrize("piece", ["[", "]", "[]", "][", "click[", "a[\n"])
def test_in_linear_time(piece: str) -> None:
    start = time.process_time()
    for nested in (False, True):
        parse_action(piece * (65_536 // len(piece)), nested_brackets=nested)
    assert time.process_time() - start < 0.1


@pytest.mark.parametrize(
    ("action", "original", "revised"),
    [
        ("search[x] thanks", ("search", "x"), None),
        ("Click[x]", ("Click", "x"), ("click", "x")),
        (" click [x] ", (" click ", "x"), ("click", "x")),
        ("search[]", None, None),
        ("search[ ]", ("search", " "), None),
        ("click[[x]]", ("click[", "x]"), ("click", "[x]")),
        ("click[a\nb]", None, ("click", "a\nb")),
        ("noop", None, None),
    ],
)
def test_cases(action: str, original: object, revised: object) -> None:
    assert parse_action(action) == original
    assert parse_action(action, nested_brackets=True) == revised


def test_what_cannot_be_clicked_is_not_admissible() -> None:
    names = ("search", "", "set [2]", "ab[", "a\nb", "red", "b000000001")
    assert admissible(names, nested_brackets=False) == ("click[ab[]", "click[red]", "click[b000000001]")
    assert not clickable("set [2]", nested_brackets=False) and clickable("set [2]", nested_brackets=True)
