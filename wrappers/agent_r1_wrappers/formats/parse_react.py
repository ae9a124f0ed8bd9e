"""ReAct's format: ``Thought: ..``, ``Action: ..``, and maybe ``Action Input: ..``."""

import json
import re
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.actions import MalformedAction
from agent_r1_envs.tools import Call, format_calls
from agent_r1_wrappers.formats.action_format import ActionFormat, describe_tools
from agent_r1_wrappers.formats.lenient_json import read_values

_MARKER = re.compile(
    r"^[ \t]*+(?:\*\*)?(thought|action input|action|observation|final answer)(?:[ \t]*+[0-9]++)?(?:\*\*)?[ \t]*+:"
    r"(?:\*\*)?",
    re.IGNORECASE | re.MULTILINE,
)
_MAX_SECTIONS = 200
_BRACKETS = re.compile(r"([^\W\d][\w.-]*+)\[(.*)\]", re.DOTALL)


@dataclass(slots=True)
class _Section:
    kind: str
    text: str


class ParseReAct(ActionFormat):
    """Takes the command from the ``Action:`` of a reply.

    Read are ``Action: name[argument]`` or any other command up to the end of its line, ``Action: name`` followed by
    ``Action Input: text`` or a JSON object of arguments, and ``Final Answer: text``. A line may be numbered
    (``Action 2:``). Everything from the first ``Observation:`` on was made up by the model and is ignored. In a tool
    env several actions are several calls, and a tool's name may be in another case (``Search[..]``); elsewhere there
    must be one action.

    Args:
        env: An env with text observations and actions.
        finish_tool: The tool that ``Final Answer:`` calls.
        instruct: Whether to tell the model the format.
    """

    def __init__(self, env: gymnasium.Env[str, str], *, finish_tool: str = "answer", instruct: bool = True) -> None:
        RecordConstructorArgs.__init__(self, finish_tool=finish_tool, instruct=instruct)
        super().__init__(env, instruct=instruct)
        self._finish_tool = finish_tool
        self._lower_names = {name.lower(): name for name in self.env_tools}

    def parse(self, reply: str) -> str | MalformedAction:
        """Return the command of the action, or why there is none."""
        commands: list[str] = []
        sections = _sections(reply)
        if len(sections) > _MAX_SECTIONS:
            return MalformedAction(reply, f"there are {len(sections)} thoughts and actions")
        for index, section in enumerate(sections):
            following = sections[index + 1] if index + 1 < len(sections) else None
            if section.kind == "final answer":
                commands.append(self._with_input(self._finish_tool, section.text))
            elif section.kind == "action" and following is not None and following.kind == "action input":
                if _BRACKETS.fullmatch(section.text):
                    return MalformedAction(
                        reply, "give the argument either in brackets or as 'Action Input:', not both"
                    )
                commands.append(self._with_input(section.text, following.text))
            elif section.kind == "action":
                quoted = _unquote(section.text)
                commands.append(quoted if quoted != section.text else self._with_known_name(section.text))
        if not commands:
            return MalformedAction(reply, "there is no line 'Action: ...' in the reply")
        if len(commands) > 1 and not self.env_tools:
            return MalformedAction(reply, f"there are {len(commands)} actions, give one")
        command = "\n".join(commands)
        return command if command else MalformedAction(reply, "the action is empty")

    def format(self, command: str, thought: str = "") -> str:
        """Return ``Thought:`` and ``Action:``; a command that one line cannot hold is written as a JSON string."""
        lines = command.split("\n") if self.env_tools else [command]
        plain = all(_is_plain(line) and self._with_known_name(line) == line for line in lines)
        actions = (
            [f"Action: {line}" for line in lines] if plain else [f"Action: {json.dumps(command, ensure_ascii=False)}"]
        )
        # Indented by one mark, no line of the thought can be taken for an action.
        thinking = ["Thought: " + thought.replace("\n", "\n> ")] if thought else []
        return "\n".join(thinking + actions)

    def instruction(self) -> str:
        """Return how to write thought and action, and the commands of a tool env."""
        text = "Reply with one line 'Thought: ...' and then one line 'Action: ...'."
        commands = describe_tools(self._shown_tools().values())
        return f"{text}\nActions:\n{commands}" if commands else text

    def _with_known_name(self, command: str) -> str:
        match = _BRACKETS.fullmatch(command)
        if match is None or match[1] in self.env_tools:
            return command
        return self._lower_names.get(match[1].lower(), match[1]) + command[match.end(1) :]

    def _with_input(self, name: str, text: str) -> str:
        name = self._lower_names.get(name.lower(), name)
        tool = self.env_tools.get(name)
        arguments: dict[str, Any] | None = _as_object(text) if self.env_tools else None
        if arguments is None and tool is not None and tool.primary is not None:
            arguments = {tool.primary: _unquote(text)}
        if arguments is None:
            return f"{name}[{text}]"
        try:
            return format_calls([Call(name, arguments)], self.env_tools)
        except (ValueError, RecursionError):  # numbers that JSON has not, nesting without end: the env says so
            return f"{name}[{text}]"


def _sections(reply: str) -> list[_Section]:
    """Split a reply at its markers, up to the first observation; what precedes the first marker is left out."""
    markers = []
    stop = len(reply)
    for match in _MARKER.finditer(reply):
        if match[1].lower() == "observation":
            stop = match.start()
            break
        markers.append(match)
    ends = [match.start() for match in markers[1:]] + [stop]
    sections = []
    for match, end in zip(markers, ends, strict=False):
        kind, text = match[1].lower(), reply[match.end() : end].strip()
        if kind == "action":
            text = text.partition("\n")[0].strip()
        sections.append(_Section(kind, text))
    return sections


def _unquote(text: str) -> str:
    """Return what a JSON string stands for; any other text is returned as it is."""
    if not (len(text) > 1 and text[0] == text[-1] == '"'):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def _as_object(text: str) -> dict[str, Any] | None:
    try:
        (value,) = read_values(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_plain(line: str) -> bool:
    """Return whether ``Action: line`` is read back as the line."""
    return bool(line) and line == line.strip() and "\n" not in line and _unquote(line) == line
