"""Commands as the replies that an env with action formats takes, and back."""

from contextlib import suppress

import gymnasium

from agent_r1_envs.actions import MalformedAction
from agent_r1_envs.tools import Call, format_calls
from agent_r1_wrappers.formats.action_format import ActionFormat
from agent_r1_wrappers.order import layers


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
