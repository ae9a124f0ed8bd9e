"""The grammar of tool calls."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.text import is_unicode
from agent_r1_envs.tools import Call, CallSyntaxError, Tool, format_calls, parse_calls
from tests.helpers.linear import linear_time


def search(query: str, k: int = 3) -> str:
    return query


def page(number: int) -> str:
    return str(number)


def move(source: str, target: str) -> str:
    return source + target


def tags(names: list[str]) -> str:
    return str(names)


def stop() -> str:
    return ""


TOOLS = {function.__name__: Tool.from_function(function) for function in (search, page, move, tags, stop)}


def parse(text: str, max_calls: int = 4) -> list[Call]:
    return parse_calls(text, TOOLS, max_calls=max_calls)


def one(query: str) -> list[Call]:
    return [Call("search", {"query": query})]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("search[a b]", one("a b")),
        ("  search[a]\t\r\n\n", one("a")),
        ("search[ a ]", one(" a ")),
        ("search[]", one("")),
        ("search[a]b]", one("a]b")),
        ("search[a] and search[b]", one("a] and search[b")),
        ("search[[a]]", one("[a]")),
        ("search[a\rb\x0b\u2028c]", one("a\rb\x0b\u2028c")),
        ('search[{"x": 1}]', one('{"x": 1}')),
        ("page[3]", [Call("page", {"number": "3"})]),
        ("stop[]", [Call("stop", {})]),
        ("stop[ ]", [Call("stop", {})]),
        ("nothing[x]", [Call("nothing", {"argument": "x"})]),
        ("search[a]\nsearch[b]", one("a") + one("b")),
        ('{"name": "search", "arguments": {"query": "a"}}', one("a")),
        ('{"name": "search",\n "arguments":\n {"query": "a\\nb"}}', one("a\nb")),
        ('{"name": "search", "arguments": "{\\"query\\": \\"a\\"}"}', one("a")),
        ('{"name": "search", "arguments": " {\\"query\\": \\"a\\"}\\n"}', one("a")),
        ('{"id": "call_1", "name": "search", "arguments": {"query": "a"}}', one("a")),
        ('{"name": "stop"}', [Call("stop", {})]),
        ('[{"name": "stop"}, {"name": "search", "arguments": {"query": "a"}}]', [Call("stop", {}), *one("a")]),
        ('{"name": "stop"}{"name": "stop"}\n{"name": "stop"}', [Call("stop", {})] * 3),
        ('search[a]\n{"name": "stop"}\nsearch[b]', [*one("a"), Call("stop", {}), *one("b")]),
        ('{"name": "search", "arguments": {"query": "\\ud83d\\ude00"}}', one("\U0001f600")),
        (
            '{"name": "search", "arguments": {"query": 12345678901234567890123}}',
            [Call("search", {"query": 12345678901234567890123})],
        ),
    ],
)
def test_calls_are_read(text: str, calls: list[Call]) -> None:
    assert parse(text) == calls


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("I will search[a]", "not a call"),
        ("search [a]", "not a call"),
        ("search(a)", "not a call"),
        ("search", "not a call"),
        ("[search]", "cannot be read"),
        ("3[a]", "not a call"),
        ("search[a", "closing ] is missing"),
        ("search[a\nb]", "closing ] is missing"),
        ("search[a].", "text after the call"),
        ("search[a]\nthanks", "not a call"),
        ("thanks\nsearch[a]", "not a call"),
        ("search[\ud800]", "surrogate"),
        ("move[a]", "written as JSON"),
        ("tags[a]", "written as JSON"),
        ("stop[now]", "written as JSON"),
        ("[]", "list of calls is empty"),
        ("{}", "object"),
        ("[1]", "object"),
        ('[[{"name": "stop"}]]', "object"),
        ('{"name": 3}', "object"),
        ('{"name": "stop", "parameters": {}}', '"parameters"'),
        ('{"name": "stop", "arguments": []}', "by name"),
        ('{"name": "stop", "arguments": null}', "by name"),
        ('{"name": "stop", "arguments": ""}', "cannot be read"),
        ('{"name": "stop", "arguments": "3"}', "by name"),
        ('{"name": "stop", "arguments": "{} {}"}', "goes on"),
        ('{"name": "stop"}, {"name": "stop"}', "not a call"),
        ('{"name": "stop"} done', "not a call"),
        ("{'name': 'stop'}", "double quotes"),
        ('{"name": "stop",}', "comma too many"),
        ('[{"name": "stop"},]', "comma too many"),
        ('{"name": "stop"', "breaks off"),
        ('{"name": "search", "arguments": {"query": "a\nb"}}', "control character"),
        ('{"name": "search", "arguments": {"query": NaN}}', "NaN"),
        ('{"name": "search", "arguments": {"query": -Infinity}}', "-Infinity"),
        ('{"name": "search", "arguments": {"query": 1e999}}', "too large"),
        ('{"name": "search", "arguments": {"query": ' + "9" * 5000 + "}}", "cannot be read"),
        ('{"name": "search", "arguments": {"query": "\\ud800"}}', "surrogate"),
        ('{"name": "search", "arguments": {"\\ud800": 1}}', "surrogate"),
        ('{"name": "stop", "name": "search"}', "twice"),
        ('{"name": "search", "arguments": {"query": "a", "query": "b"}}', "twice"),
        ("stop[]\n" * 5, "at most 4 calls"),
        (json.dumps([{"name": "stop"}] * 5), "at most 4 calls"),
        ('{"name": "search", "arguments": {"query": ' + "[" * 40 + "]" * 40 + "}}", "nested deeper"),
    ],
)
def test_other_text_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(CallSyntaxError, match=".*") as caught:
        parse(text)
    message = str(caught.value)
    assert reason in message
    assert is_unicode(message) and len(message) < 500


GIANTS = {
    "deep lists": "[" * 10**6,
    "deep objects": '{"a":' * 200_000,
    "deep and closed": "[" * 500_000 + "]" * 500_000,
    "open brackets": "search[" * 140_000,
    "closing brackets": "search[" + "]" * 10**6,
    "closing brackets, then prose": "search[" + "] " * 500_000 + "x",
    "spaces": " " * 10**6,
    "lines": "\n" * 10**6,
    "names": "a" * 10**6,
    "calls": "stop[]\n" * 140_000,
    "objects": '{"name": "stop"}' * 60_000,
    "list": "[" + '{"name": "stop"},' * 60_000 + '{"name": "stop"}]',
    "one argument": f"search[{'x' * 10**6}]",
    "JSON argument": json.dumps({"name": "search", "arguments": {"query": "\u6f22\n" * 10**5}}),
    "JSON in a string": json.dumps({"name": "search", "arguments": json.dumps({"query": '"' * 10**5})}),
    "keys": json.dumps({"name": "search", "arguments": {str(number): number for number in range(50_000)}}),
    "key twice at last": '{"name": "stop", "arguments": {'
    + ",".join(f'"{n}": 1' for n in range(60_000))
    + ',"59999": 1}}',
    "numbers": '{"name": "search", "arguments": {"query": [' + "1," * 300_000 + "1]}}",
    "backslashes": '{"name": "' + "\\" * 10**6,
    "surrogates": "\ud800" * 10**6,
    "combining": "search[" + "\u0301" * 10**6 + "]",
}


@pytest.mark.parametrize("name", GIANTS)
def test_giants_take_linear_time(name: str) -> None:
    with linear_time():
        try:
            parse(GIANTS[name])
        except CallSyntaxError as error:
            assert len(str(error)) < 500


def test_errors_at_any_depth_of_the_stack() -> None:
    """A call that is read near the recursion limit fails in the same way."""

    def descend(levels: int) -> None:
        if levels:
            return descend(levels - 1)
        with pytest.raises(CallSyntaxError):
            parse("[" * 10_000)
        return None

    descend(700)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_parses_or_says_why(text: str) -> None:
    try:
        calls = parse(text)
    except CallSyntaxError as error:
        assert str(error) and is_unicode(str(error))
    else:
        assert 1 <= len(calls) <= 4


TEXT = st.text()
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from([*TOOLS, "unknown"])
CALLS = st.builds(
    Call, NAMES, st.dictionaries(st.sampled_from(["query", "number", "argument", "x"]) | TEXT, JSON_VALUES, max_size=3)
)
SEARCHES = st.builds(lambda query: Call("search", {"query": query}), TEXT)


@given(st.lists(CALLS | SEARCHES, min_size=1, max_size=4))
def test_what_is_formatted_reads_the_same(calls: list[Call]) -> None:
    text = format_calls(calls, TOOLS)
    assert parse(text) == calls
    assert text.count("\n") == len(calls) - 1


@given(TEXT)
def test_the_short_form_is_used_wherever_it_can_be(query: str) -> None:
    text = format_calls([Call("search", {"query": query})], TOOLS)
    assert text.startswith("search[") == ("\n" not in query)


def test_arguments_with_a_line_break_need_json() -> None:
    call = Call("search", {"query": "a\nb"})
    assert format_calls([call], TOOLS) == '{"name": "search", "arguments": {"query": "a\\nb"}}'
