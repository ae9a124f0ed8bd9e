"""What a benchmark asks of an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium

__all__ = ["Act", "Agent", "AgentError"]

Act = Callable[[Any, dict[str, Any]], str]
"""From an observation and its ``info`` to the next action."""


class AgentError(RuntimeError):
    """The agent cannot act; the episode is recorded as failed and the run goes on."""


class Agent(Protocol):
    """Plays episodes, several at a time from several threads.

    Attributes:
        recipe: The context that it needs: ``"none"`` for an agent that writes native commands, ``"default"`` or
            ``"native"`` for a model that reads chat messages.
    """

    recipe: str

    def begin(self, env: gymnasium.Env[Any, Any], info: dict[str, Any], seed: int) -> Act:
        """Begin an episode.

        Args:
            env: The env, already reset.
            info: What its reset returned.
            seed: Of all random choices in the episode.
        """
        ...
