import json

import pytest
from agent_r1_wrappers.formats.lenient_json import LenientJSONError, read_values, strip_fence
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.linear import linear_time

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_reads_what_json_writes(value):
    assert read_values(json.dumps(value)) == [value]
    assert read_values("[" + json.dumps(value, ensure_ascii=False) + ",]") == [[value]]  # the reader of our own


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_reads_what_python_prints(value):
    """`repr` is Python's own spelling; only its \\x escapes have no JSON counterpart."""
    text = repr(value)
    if "\\x" in text or "\\U" in text:
        return
    assert read_values(text) == [value]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'q': 'a', 'n': [1, 2.5e3, -0,],}", {"q": "a", "n": [1, 2500.0, 0]}),
        ('{"q": True, "r": None, "s": False,}', {"q": True, "r": None, "s": False}),
        ("{q: 'x', 'r-s': \"y\"}", {"q": "x", "r-s": "y"}),
        ('{"q": "two\nlines"}', {"q": "two\nlines"}),
        ("{'q': 'What\\'s \"it\"?'}", {"q": 'What\'s "it"?'}),
        ('{"q": "It\\\'s"}', {"q": "It's"}),
        ('```json\n{"q": 1}\n```', {"q": 1}),
        ('```\n{"q": 1}```', {"q": 1}),
        ('{"q": {"r": [1, 2', {"q": {"r": [1, 2]}}),
        ('{"q": {"r": 1}}}', {"q": {"r": 1}}),
        ('{"q": 1,', {"q": 1}),
    ],
)
def test_repairs(text, value):
    assert read_values(text) == [value]


def test_reads_several():
    assert read_values('{"a": 1}\n{"b": 2}, {"c": 3}') == [{"a": 1}, {"b": 2}, {"c": 3}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a JSON object at character 1, found the end of the text"),
        ("5", "expected a JSON object"),
        ("search", "expected a JSON object"),
        ("{'q': 'What's up'}", "expected ',' or '}'"),
        ('{"q": "a "b" c"}', "expected ',' or '}'"),
        ('{"q" 1}', "expected ':' after a key"),
        ('{"q": paris}', "expected a value"),
        ('{"q": "x}', "not closed by a quote"),
        ('{"q": 1} and more', "expected a JSON object at character 10"),
        ('{"q": 1}}} and more', "after the closing brackets"),
        ('{"q": 1, "q": 2}', 'the key "q" is given twice'),
        ("{'q': 1, 'q': 2}", 'the key "q" is given twice'),
        ('{"q": NaN}', "NaN is not a JSON number"),
        ("{'q': '\\d'}", "an escape that JSON does not know"),
        ("[" * 40, "levels of nesting"),
        ("{'q': " + "9" * 5000 + "}", "too many digits"),
        ('{"q": 01}', "expected a value"),
        ("{,}", "expected a key"),
    ],
)
def test_explains(text, reason):
    with pytest.raises(LenientJSONError) as caught:
        read_values(text)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 200


def test_an_unfinished_text_is_not_completed():
    with pytest.raises(LenientJSONError, match="expected '}'"):
        read_values('{"q": {"r": 1}', complete=False)


def test_strip_fence_leaves_other_text():
    assert strip_fence("  a ``` b ") == "a ``` b"


@given(st.text(alphabet="{}[]\"':, \\ntrueNone1.5e-`aé\n") | st.text(), st.booleans())
def test_never_raises_anything_else(text, complete):
    try:
        assert read_values(text, complete=complete)
    except LenientJSONError as error:
        assert str(error)


@pytest.mark.parametrize(
    "piece", ["[", "{'a':", "'", '"', "\\", " ", "\n", "1", "{'a", "',", "]", "{'k': [' \\\\", "-", "'\\'"]
)
def test_takes_linear_time(piece):
    for text in (piece * (1_000_000 // len(piece)), "{'a': [" + piece * (1_000_000 // len(piece))):
        with linear_time(), pytest.raises(LenientJSONError):
            read_values(text, complete=False)
