"""Tools: schemas from typed functions, descriptions from docstrings, checks of arguments."""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from agent_r1_envs.errors import ToolError
from agent_r1_envs.tools import BaseTool, Tool, ToolResult
from agent_r1_envs.tools.docstrings import parse_docstring


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


def everything(
    title: str,
    count: int = 2,
    ratio: Annotated[float, Field(ge=0, le=1)] = 0.5,
    mode: Literal["fast", "slow"] = "fast",
    tags: list[str] | None = None,
    colour: Colour = Colour.RED,
    at: Optional[Point] = None,  # noqa: UP045 (people write it)
    *,
    schema: bool = False,
    model_dump: str = "",
    _hidden: str = "",
) -> dict[str, Any]:
    """Take one of each.

    This goes on
    over two lines.

    Args:
        title: A name: with a colon.
        count (int): How many
            there are.
        unknown: Not a parameter.

    Returns:
        All of it.
    """
    return {"title": title, "count": count, "tags": tags, "colour": str(colour), "x": at.x if at else None}


def test_the_schema_of_a_typed_function() -> None:
    tool = Tool.from_function(everything)
    assert tool.name == "everything"
    assert tool.description == "Take one of each.\n\nThis goes on over two lines."
    properties = tool.parameters["properties"]
    assert list(properties)[:3] == ["title", "count", "ratio"]
    assert properties["title"] == {"type": "string", "description": "A name: with a colon."}
    assert properties["count"] == {"type": "integer", "default": 2, "description": "How many there are."}
    assert properties["ratio"] == {"type": "number", "default": 0.5, "minimum": 0, "maximum": 1}
    assert properties["mode"]["enum"] == ["fast", "slow"]
    assert properties["schema"] == {"type": "boolean", "default": False}
    assert {"model_dump", "_hidden"} <= set(properties)
    assert tool.parameters["required"] == ["title"]
    assert tool.parameters["additionalProperties"] is False
    assert tool.schema == {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }
    json.dumps(tool.schema, allow_nan=False)


def test_schemas_are_fresh_copies() -> None:
    tool = Tool.from_function(everything)
    tool.schema["function"]["parameters"]["properties"].clear()
    tool.parameters["required"].clear()
    assert tool.parameters["required"] == ["title"] and tool.parameters["properties"]


def test_arguments_are_converted_and_defaults_left_to_the_function() -> None:
    tool = Tool.from_function(everything)
    checked = tool.check(
        {"title": 1984, "count": "3", "colour": "blue", "at": {"x": "4"}, "_hidden": "h", "schema": True}
    )
    assert checked == {
        "title": "1984",
        "count": 3,
        "colour": Colour.BLUE,
        "at": Point(4, 0),
        "_hidden": "h",
        "schema": True,
    }
    assert json.loads(tool({"title": "t", "at": {"x": 1}}).text)["x"] == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "argument 'title' is missing"),
        ({"titel": "x"}, "argument 'title' is missing; unknown argument 'titel'"),
        ({"title": ["x"]}, "argument 'title': Input should be a valid string"),
        ({"title": None}, "argument 'title'"),
        ({"title": "x", "count": "many"}, "argument 'count': Input should be a valid integer"),
        ({"title": "x", "count": 1.5}, "argument 'count'"),
        ({"title": "x", "ratio": 2}, "less than or equal to 1"),
        ({"title": "x", "mode": "SLOW"}, "'fast' or 'slow'"),
        ({"title": "x", "tags": [1, {}]}, "argument 'tags.1'"),
        ({"title": "x", "at": {}}, "argument 'at.x' is missing"),
        ({str(number): 1 for number in range(50)}, "and 48 more"),
        ({"title": "x", "y" * 10_000: 1}, "unknown argument 'yyy"),
    ],
)
def test_wrong_arguments_say_which_and_why(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        Tool.from_function(everything).check(arguments)
    assert text in str(caught.value)
    assert len(str(caught.value)) < 1_000


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["title", "count", "ratio", "mode", "tags", "colour", "at", "schema"])


@given(st.dictionaries(KEYS | st.text(), JSON_VALUES, max_size=5))
def test_any_arguments_fit_or_say_why(arguments: dict[str, Any]) -> None:
    tool = Tool.from_function(everything)
    try:
        checked = tool.check(arguments)
    except ToolError as error:
        assert str(error)
    else:
        assert set(checked) <= set(tool.parameters["properties"])


def one_int(number: int) -> str:
    return str(number)


def optional_text(text: str | None = None) -> str:
    return text or "none"


def two_required(first: str, second: str) -> str:
    return first + second


def second_optional(first: str, second: str = "") -> str:
    return first + second


def only_list(items: list[str]) -> str:
    return str(items)


def choice(mode: Literal["a", "b"]) -> str:
    return mode


def nothing() -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "primary", "usage"),
    [
        (one_int, "number", "one_int[number]"),
        (optional_text, "text", "optional_text[text]"),
        (second_optional, "first", "second_optional[first]"),
        (choice, "mode", "choice[mode]"),
        (two_required, None, '{"name": "two_required", "arguments": {"first": "...", "second": "..."}}'),
        (only_list, None, '{"name": "only_list", "arguments": {"items": "..."}}'),
        (nothing, None, "nothing[]"),
    ],
)
def test_the_argument_that_brackets_fill(function: Any, primary: str | None, usage: str) -> None:
    tool = Tool.from_function(function)
    assert (tool.primary, tool.usage) == (primary, usage)


def no_annotation(x) -> str:  # noqa: ANN001
    return x


def positional(x: int, /) -> str:
    return str(x)


def variadic(*xs: int) -> str:
    return str(xs)


def named(**xs: int) -> str:
    return str(xs)


@pytest.mark.parametrize("function", [no_annotation, positional, variadic, named])
def test_functions_that_a_model_cannot_call_raise(function: Any) -> None:
    with pytest.raises(TypeError, match=function.__name__):
        Tool.from_function(function)


@pytest.mark.parametrize("name", ["", "1a", "a b", "a[", "é", "x" * 65])
def test_names_that_models_could_not_write_raise(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Tool.from_function(one_int, name=name)


class Counter(BaseTool):
    """Count calls.

    Args in a class's docstring are nobody's.
    """

    name = "count"

    def __init__(self, start: int) -> None:
        super().__init__()
        self.calls = start

    def run(self, step: int = 1) -> ToolResult:
        """Count.

        Args:
            step: How far.
        """
        self.calls += step
        return ToolResult(f"{self.calls}", reward=0.5)


def test_the_class_form() -> None:
    tool = Counter(start=5)
    assert tool.description.startswith("Count calls.")
    assert tool.parameters["properties"]["step"]["description"] == "How far."
    assert tool({"step": "2"}) == ToolResult("7", 0.5)
    assert tool.usage == "count[step]"
    with pytest.raises(TypeError, match="abstract"):
        BaseTool()  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("docstring", "description", "arguments"),
    [
        (None, "", {}),
        ("One line.", "One line.", {}),
        (
            "One.\n\nArgs:\n    x: First.\n\n        More.\n    y (str, optional): Second:\n      third.",
            "One.",
            {"x": "First. More.", "y": "Second: third."},
        ),
        ("Notes: not a section.\n\nRaises:\n    x: y", "Notes: not a section.", {}),
        ("A\nb.\n\nArgs:\n  **kw: K.\n  z: Z.\nReturns:\n  z: no", "A b.", {"kw": "K.", "z": "Z."}),
    ],
)
def test_docstrings(docstring: str | None, description: str, arguments: dict[str, str]) -> None:
    assert parse_docstring(docstring) == (description, arguments)


@given(st.text())
def test_any_docstring_can_be_read(text: str) -> None:
    parse_docstring(text)
