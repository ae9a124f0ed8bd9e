"""The base of action formats: wrappers that read a model's reply and pass a command on.

Whatever formats an env has around it, a command can be turned into a reply that they read as that command.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.actions import MalformedAction
from agent_r1_envs.spaces import FreeText
from agent_r1_envs.text import is_unicode
from agent_r1_envs.tools import Call, Tool, format_calls
from agent_r1_wrappers.stack import layers, require_text

INSTRUCTION_KEY = "format_instruction"
STOP_KEY = "stop_strings"
REPLY_LENGTH = 262_144


class ActionFormat(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs, ABC):
    """Reads the command out of a reply, and writes a reply that holds a command.

    A subclass implements :meth:`parse` and :meth:`format`, with ``parse(format(command)) == command``, and
    :meth:`instruction`, which tells the model how to reply: reset has it in ``info["format_instruction"]``, from where
    ``AppendHistory`` takes it into the system message. The command that the env got is in ``info["action"]`` of step.

    A reply without a valid command goes on as :class:`~agent_r1_envs.actions.MalformedAction` and is reported in
    ``info["invalid_action"]``. An env that is no :class:`~agent_r1_envs.core.AgentEnv` gets it as a plain string, and
    what it does then is up to it.

    Args:
        env: An env with text observations and actions.
        instruct: Whether to tell the model the format.

    Raises:
        WrapperOrderError: If observations or actions of ``env`` are not text.
    """

    stateless = True

    def __init__(self, env: gymnasium.Env[str, str], *, instruct: bool = True) -> None:
        RecordConstructorArgs.__init__(self, instruct=instruct)
        gymnasium.Wrapper.__init__(self, env)
        require_text(self, env)
        self.action_space = FreeText(REPLY_LENGTH)
        self._instruct = instruct

    @abstractmethod
    def parse(self, reply: str) -> str | MalformedAction:
        """Return the command of a reply, or the reply as a :class:`MalformedAction` with the reason. Never raises."""

    @abstractmethod
    def format(self, command: str, thought: str = "") -> str:
        """Return a reply that :meth:`parse` reads as ``command``.

        Args:
            command: A command of the env.
            thought: Thinking to put before it, if the format has a place for it.

        Raises:
            ValueError: If this format has no reply for the command.
        """

    @abstractmethod
    def instruction(self) -> str:
        """Return how to reply, for the system message; ``""`` for nothing."""

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Strings at which the sampling of a reply should end, in reset's ``info``; none leaves it to the model."""
        return ()

    @property
    def env_tools(self) -> Mapping[str, Tool]:
        """The tools of the env by name; empty for an env whose commands are plain text."""
        tools = getattr(self.unwrapped, "tools", None)
        if isinstance(tools, Mapping) and all(isinstance(tool, Tool) for tool in tools.values()):
            return tools
        return {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode, and tell in ``info`` the format and where a reply ends."""
        observation, info = self.env.reset(seed=seed, options=options)
        # The outermost format reads the reply, so it alone says where that ends.
        info = {key: value for key, value in info.items() if key != STOP_KEY}
        if self.stop_strings:
            info[STOP_KEY] = list(self.stop_strings)
        text = self.instruction() if self._instruct else ""
        if text:
            below = info.get(INSTRUCTION_KEY)
            info = {**info, INSTRUCTION_KEY: f"{below}\n\n{text}" if below else text}
        return observation, info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Pass on the command of the reply ``action``."""
        command = self._checked_parse(action)
        observation, reward, terminated, truncated, info = self.env.step(command)
        info = dict(info)
        if isinstance(command, MalformedAction):
            info.setdefault("invalid_action", command.reason)
        else:
            info.setdefault("action", command)  # a format below knows better what the env got
        return observation, reward, terminated, truncated, info

    def _shown_tools(self) -> dict[str, Tool]:
        """The tools under the first of their names; an alias is left out."""
        first = {tool: name for name, tool in reversed(list(self.env_tools.items()))}
        return {name: tool for name, tool in self.env_tools.items() if first[tool] == name}

    def _checked_parse(self, action: object) -> str:
        if isinstance(action, MalformedAction):
            return action
        if not isinstance(action, str):
            return MalformedAction(repr(action), f"a reply is a string, got {type(action).__name__}")
        command = self.parse(action)
        if isinstance(command, MalformedAction) or is_unicode(command):
            return command
        return MalformedAction(action, "the command is not valid Unicode: it holds half of a surrogate pair")


def describe_tools(tools: Iterable[Tool]) -> str:
    """List the commands of a tool env with their use, one a line; ``""`` without tools."""
    return "\n".join(f"- {tool.usage}: {tool.description}" for tool in tools)


def reply_for(env: gymnasium.Env, command: str, thought: str = "") -> str:
    """Return a reply that the action formats of ``env`` read as ``command``.

    Expert agents and demonstrations use it: ``env.step(reply_for(env, env.unwrapped.expert_action()))``.

    Args:
        env: An env with any number of action formats, even none, which leaves the command as it is.
        command: A command of the env itself.
        thought: Thinking for the outermost format.

    Raises:
        ValueError: If a format has no reply for the command.
    """
    formats = _formats(env)
    for place in reversed(formats):
        command = place.format(command, thought if place is formats[0] else "")
    return command


def read_reply(env: gymnasium.Env, reply: str) -> str:
    """Return the command that the action formats of ``env`` read in ``reply``, without a step.

    Where one of them reads none, it is a :class:`~agent_r1_envs.actions.MalformedAction`.
    """
    for place in _formats(env):
        if isinstance(reply, MalformedAction):
            break
        reply = place.parse(reply)
    return reply


def sample_replies(env: gymnasium.Env, thought: str = "") -> dict[str, str]:
    """Return commands to try the action formats of ``env`` with, before any episode, and the replies that hold them.

    They need not be right ones: a call of each tool that takes a single text, or one word for an env without tools.
    There are none where there is no format, or where it cannot write and read such commands without an episode.

    Args:
        env: An env with any number of action formats.
        thought: Thinking for the outermost format.
    """
    formats = _formats(env)
    commands = ["look"] if formats else []
    tools = formats[-1].env_tools if formats else {}
    if tools:
        calls = [Call(name, {tool.primary: "river"}) for name, tool in tools.items() if tool.primary]
        commands = [format_calls([call], tools) for call in calls]
    replies = {}
    for command in commands:
        with suppress(Exception):  # a format of another maker may need an episode first
            reply = reply_for(env, command, thought)
            if read_reply(env, reply) == command:
                replies[command] = reply
    return replies


def _formats(env: gymnasium.Env) -> list[ActionFormat]:
    """The action formats from the outside in: the order in which they read a reply."""
    return [layer for layer in layers(env) if isinstance(layer, ActionFormat)]
