"""A command as the reply that an env with action formats takes."""

import gymnasium

from agent_r1_wrappers.action_format import ActionFormat
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
    formats = [layer for layer in layers(env) if isinstance(layer, ActionFormat)]
    for place in reversed(formats):
        command = place.format(command, thought if place is formats[0] else "")
    return command
