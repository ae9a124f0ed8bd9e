"""Fuzzy equality, beside the formula written down plainly, and the false positives that it is known for."""

import re
from difflib import SequenceMatcher

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_r1_envs.webshop.reward import COLOURS, matches, normalise_colour, process, token_set_ratio

WORDS = st.lists(st.sampled_from(["x", "xx", "large", "larger", "7", "7.5", "größe", "black", "é", "漢", "_", "32w"]))
TEXTS = WORDS.map(" ".join) | st.text(max_size=12)


def reference(first: str, second: str) -> int:
    """token_set_ratio of two raw texts, without shortcuts."""
    plain = [re.sub(r"\W", " ", re.sub("[\x80-\xff]", "", text)).lower().strip() for text in (first, second)]
    if not all(plain):
        return 0
    one, two = (set(text.split()) for text in plain)
    common = " ".join(sorted(one & two))
    strings = (common, *(" ".join([*sorted(one & two), *sorted(rest)]) for rest in (one - two, two - one)))

    def ratio(a: str, b: str) -> int:
        return 100 if a == b else round(100 * SequenceMatcher(None, a, b).ratio()) if a and b else 0

    return max(ratio(strings[0], strings[1]), ratio(strings[0], strings[2]), ratio(strings[1], strings[2]))


@settings(max_examples=400)
@given(TEXTS, TEXTS)
def test_equals_the_formula(first: str, second: str) -> None:
    expected = reference(first, second)
    assert token_set_ratio(process(first), process(second)) == expected
    assert matches(process(first), process(second)) == (expected > 85)


def test_long_texts_with_common_letters() -> None:
    """difflib passes over letters that are common in long texts; so does the original."""
    for cut in range(0, 240, 7):
        first = "ab cd e " * 30
        second = first[:cut] + "zz yy " + first[cut:]
        assert token_set_ratio(process(first), process(second)) == reference(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x-large", "xx-large"),
        ("large", "x-large"),
        ("7", "7.5"),
        ("10", "10.5 wide"),
        ("32w x 30l", "42w x 30l"),
        ("16 inch", "12 inch"),
        ("standard", "tan"),
        ("washed black", "ash grey"),
        ("twin", "twin xl"),
        ("dark blue", "navy blue"),
    ],
)
def test_known_false_positives(first: str, second: str) -> None:
    values = [process(str(normalise_colour(value))) for value in (first, second)]
    assert matches(*values)


def test_grey_is_not_gray() -> None:
    assert not matches(process("grey"), process("gray"))


def test_colours() -> None:
    assert len(COLOURS) == len(set(COLOURS)) == 102
    assert list(COLOURS) == sorted(COLOURS)
    assert normalise_colour("dark blue") == "blue"  # before "dark" in the alphabet
    assert normalise_colour(("color", "red")) == "red"
    assert normalise_colour(("color", "dark red")) == ("color", "dark red")
