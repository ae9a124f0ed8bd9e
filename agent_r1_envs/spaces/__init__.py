"""Observation and action spaces for text and chat.

Importing this package registers both spaces with ``gymnasium.vector``, so that every vectorisation mode works.
"""

from agent_r1_envs.spaces import vector as _vector  # noqa: F401 (registers the handlers)
from agent_r1_envs.spaces.free_text import FreeText
from agent_r1_envs.spaces.messages import Message, Messages, as_messages

__all__ = ["FreeText", "Message", "Messages", "as_messages"]
