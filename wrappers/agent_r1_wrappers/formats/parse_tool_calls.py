"""Tool calls in the Hermes format: ``<tool_call>{"name": .., "arguments": {..}}</tool_call>``."""

import copy
import json
from typing import Any, Literal

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.actions import MalformedAction
from agent_r1_envs.tools import Call, format_calls, parse_calls
from agent_r1_wrappers.formats.action_format import ActionFormat
from agent_r1_wrappers.formats.hermes import MAX_CALLS, HermesError, RawCall, read_calls, write_call
from agent_r1_wrappers.formats.tags import THINK_CLOSE, THINK_OPEN, thinking_end

TEMPLATE_KEY = "chat_template_kwargs"

_PLAIN_ARGUMENT = "command"
_PLAIN_SCHEMA: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "act",
        "description": "Do one action in the environment.",
        "parameters": {
            "type": "object",
            "properties": {
                _PLAIN_ARGUMENT: {"type": "string", "description": "The action, as the environment takes it."}
            },
            "required": [_PLAIN_ARGUMENT],
        },
    },
}


class ParseToolCalls(ActionFormat):
    """Takes the command from the tool calls of a reply, one or several.

    What a model is likely to get wrong and has one possible meaning is repaired (see
    :mod:`agent_r1_wrappers.formats.hermes`);
    anything else is malformed, with the place and the reason, and then no call of the reply runs. An env without tools
    gets one, ``act(command)``, so that models that only know tool calls can play it.

    Args:
        env: An env with text observations and actions.
        schemas: Where the model sees the tools: ``"system"`` writes them into the system message, which works with any
            chat template and endpoint; ``"template"`` hands them to the chat template in
            ``info["chat_template_kwargs"]`` of reset, for models whose template writes this format; ``"none"``.
        no_call: What a reply without any call means: ``"invalid"``, or ``"finish"``: its text is the final answer.
        finish_tool: The tool that takes the final answer.
        command_tool: What the one tool of an env without tools is called.

    Raises:
        ValueError: If an argument is out of its range, or ``no_call="finish"`` and there is no such tool.

    Example:
        >>> import gymnasium, agent_r1_envs
        >>> env = ParseToolCalls(gymnasium.make("AgentR1/HotpotQA-v0"))
        >>> env.parse("<tool_call>{'name': 'search', 'arguments': {'query': 'Dubliners',}}")
        'search[Dubliners]'
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        *,
        schemas: Literal["system", "template", "none"] = "system",
        no_call: Literal["invalid", "finish"] = "invalid",
        finish_tool: str = "answer",
        command_tool: str = "act",
    ) -> None:
        RecordConstructorArgs.__init__(
            self, schemas=schemas, no_call=no_call, finish_tool=finish_tool, command_tool=command_tool
        )
        super().__init__(env, instruct=schemas == "system")
        if schemas not in ("system", "template", "none"):
            raise ValueError(f"schemas is 'system', 'template' or 'none', got {schemas!r}")
        if no_call not in ("invalid", "finish"):
            raise ValueError(f"no_call is 'invalid' or 'finish', got {no_call!r}")
        if not command_tool.strip():
            raise ValueError("command_tool must not be empty")
        tool = self.env_tools.get(finish_tool)
        if no_call == "finish" and (tool is None or tool.primary is None):
            raise ValueError(f"no_call='finish' needs a tool {finish_tool!r} that takes a single text")
        self._schemas = schemas
        self._no_call = no_call
        self._finish_tool = finish_tool
        self._command_tool = command_tool

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode, and tell the tools in ``info``."""
        observation, info = super().reset(seed=seed, options=options)
        if self._schemas == "template":
            info = {**info, TEMPLATE_KEY: {**info.get(TEMPLATE_KEY, {}), "tools": self._tool_schemas()}}
        return observation, info

    def parse(self, reply: str) -> str | MalformedAction:
        """Return the calls in the env's own grammar, or why there are none."""
        try:
            raw = read_calls(reply)
            if not raw:
                return self._without_call(reply)
            return self._command(raw)
        except (HermesError, ValueError) as error:
            return MalformedAction(reply, str(error))
        except RecursionError:
            return MalformedAction(reply, "the arguments are nested too deeply")

    def format(self, command: str, thought: str = "") -> str:
        """Return the calls of a command as Hermes tool calls, after the thinking.

        A tool env's command that is not written as :func:`agent_r1_envs.tools.format_calls` does, such as JSON where
        ``name[argument]`` would do, is parsed as the same calls in that form.

        Raises:
            ValueError: If the command of a tool env is no sequence of calls.
        """
        if self.env_tools:
            calls = parse_calls(command, self.env_tools, max_calls=MAX_CALLS)
        else:
            calls = [Call(self._command_tool, {_PLAIN_ARGUMENT: command})]
        text = "\n".join(write_call(call.name, call.arguments) for call in calls)
        if not thought:
            return text
        hidden = thought.replace(THINK_CLOSE, "<\\/think>")
        return f"{THINK_OPEN}\n{hidden}\n{THINK_CLOSE}\n\n{text}"

    def instruction(self) -> str:
        """Return the tools and how to call them."""
        schemas = "\n".join(json.dumps(schema, ensure_ascii=False) for schema in self._tool_schemas())
        return (
            "# Tools\n\nYou can call functions. Their signatures are inside <tools></tools>:\n"
            f"<tools>\n{schemas}\n</tools>\n\n"
            "For each call, write one JSON object with the name and the arguments inside <tool_call></tool_call>:\n"
            '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
        )

    def _tool_schemas(self) -> list[dict[str, Any]]:
        if not self.env_tools:
            schema = copy.deepcopy(_PLAIN_SCHEMA)
            schema["function"]["name"] = self._command_tool
            return [schema]
        return [tool.schema for tool in self._shown_tools().values()]

    def _without_call(self, reply: str) -> str | MalformedAction:
        text = reply[thinking_end(reply) :].strip()
        if self._no_call == "invalid":
            form = "tool call" if self._schemas == "template" else "<tool_call>...</tool_call>"
            return MalformedAction(reply, f"there is no {form} in the reply")
        if not text:
            return MalformedAction(reply, "there is neither a tool call nor an answer in the reply")
        return self._command([RawCall(self._finish_tool, text)])

    def _command(self, raw: list[RawCall]) -> str:
        if self.env_tools:
            return format_calls([self._call(call) for call in raw], self.env_tools)
        if len(raw) > 1:
            raise HermesError(f"there are {len(raw)} calls, give one")
        arguments = raw[0].arguments
        command = arguments.get(_PLAIN_ARGUMENT) if isinstance(arguments, dict) else arguments
        if raw[0].name != self._command_tool or not isinstance(command, str):
            raise HermesError(f'the only tool is {self._command_tool} with a text "{_PLAIN_ARGUMENT}"')
        return command

    def _call(self, raw: RawCall) -> Call:
        """Give text in place of arguments to the tool's primary one; the env reports any other misfit itself."""
        if not isinstance(raw.arguments, str):
            return Call(raw.name, raw.arguments)
        tool = self.env_tools.get(raw.name)
        if tool is None or tool.primary is None:
            raise HermesError(f'"arguments" of {raw.name} must be an object')
        return Call(raw.name, {tool.primary: raw.arguments})
