"""Tools: typed Python functions, or classes, that a model can call."""

from __future__ import annotations

import copy
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_r1_envs.tools.docstrings import parse_docstring
from agent_r1_envs.tools.schema import ArgumentModel

__all__ = ["BaseTool", "Tool", "ToolResult"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returns that also gives a reward; other tools return the text alone.

    Attributes:
        text: The result for the model to read.
        reward: Reward of this call.
    """

    text: str
    reward: float = 0.0


class Tool:
    """A function that a model can call: its name, its description, the JSON schema of its arguments.

    Make one with :meth:`from_function`, or subclass :class:`BaseTool`.

    Args:
        name: Letters, digits, ``_``, ``.`` and ``-``, at most 64, not a digit first.
        description: What the model is told.
        function: The typed function that does the work. It returns text, :class:`ToolResult` or JSON data, and raises
            :class:`~agent_r1_envs.errors.ToolError` for what the model should read.
        argument_descriptions: What the model is told of each argument.

    Raises:
        ValueError: If the name is not one.
        TypeError: If a parameter has no annotation or cannot be passed by name.
    """

    def __init__(
        self,
        name: str,
        description: str,
        function: Callable[..., Any],
        argument_descriptions: dict[str, str] | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a tool's name has letters, digits, '_', '.', '-', and at most 64 of them, got {name!r}")
        self.name = name
        self.description = description
        self._function = function
        self._arguments = ArgumentModel(function, argument_descriptions or {})
        self.primary: str | None = self._arguments.primary
        """Name of the argument that ``name[...]`` fills, None if only JSON can call the tool."""

    @classmethod
    def from_function(cls, function: Callable[..., Any], *, name: str | None = None) -> Tool:
        """Make a tool from a function with type annotations and a Google-style docstring.

        Args:
            function: A function or bound method.
            name: Its name for the model; the function's own by default.

        Example:
            >>> def double(number: int) -> str:
            ...     '''Double a number.
            ...
            ...     Args:
            ...         number: What to double.
            ...     '''
            ...     return str(2 * number)
            >>> tool = Tool.from_function(double)
            >>> tool.parameters["properties"]
            {'number': {'description': 'What to double.', 'type': 'integer'}}
            >>> tool({"number": "21"}).text
            '42'
        """
        description, arguments = parse_docstring(function.__doc__)
        return Tool(function.__name__ if name is None else name, description, function, arguments)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments; a fresh copy."""
        return copy.deepcopy(self._arguments.schema)

    @property
    def schema(self) -> dict[str, Any]:
        """The tool in OpenAI's format, as chat templates and endpoints take it; a fresh copy."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    @property
    def usage(self) -> str:
        """How to call the tool, in its shortest form."""
        if self.primary is not None:
            return f"{self.name}[{self.primary}]"
        return self.json_usage if self._arguments.schema["properties"] else f"{self.name}[]"

    @property
    def json_usage(self) -> str:
        """How to call the tool in JSON, a form that most action formats share."""
        arguments = dict.fromkeys(self._arguments.schema["properties"], "...")
        return json.dumps({"name": self.name, "arguments": arguments}, ensure_ascii=False)

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Check a model's arguments and convert them to the function's types.

        Raises:
            ToolError: If they do not fit; the text names the arguments.
        """
        return self._arguments.check(arguments)

    def __call__(self, arguments: dict[str, Any]) -> ToolResult:
        """Check the arguments and run the tool.

        Raises:
            ToolError: If the arguments do not fit, or the tool has to say so.
        """
        return self.run_checked(self.check(arguments))

    def run_checked(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool on arguments that :meth:`check` returned."""
        result = self._function(**arguments)
        if isinstance(result, ToolResult):
            return result
        return ToolResult(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.usage})"


class BaseTool(Tool, ABC):
    """A tool as a class, for tools that hold something: a connection, an index, a cache.

    A subclass sets :attr:`name` if it should not be the class's, and implements :meth:`run` with named, annotated
    parameters. The class's docstring describes the tool, that of ``run`` its arguments.

    Example:
        >>> class Add(BaseTool):
        ...     '''Add two numbers.'''
        ...
        ...     name = "add"
        ...
        ...     def run(self, a: int, b: int) -> str:
        ...         return str(a + b)
        >>> Add()({"a": 1, "b": 2}).text
        '3'
    """

    name: str = ""

    def __init__(self) -> None:
        described, arguments = parse_docstring(type(self).run.__doc__)
        description, _ = parse_docstring(type(self).__doc__)
        super().__init__(type(self).name or type(self).__name__, description or described, self.run, arguments)

    @abstractmethod
    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work; a subclass declares its own parameters."""
