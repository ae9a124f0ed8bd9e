"""What a benchmark asks of an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium

__all__ = ["Act", "Agent", "AgentError", "Reply"]

Act = Callable[[Any, dict[str, Any]], str]
"""From an observation and its ``info`` to the next action."""


class Reply(str):
    """An action that says what it cost.

    Attributes:
        usage: Counts by name, such as ``prompt_tokens``; kept with the turn and added up in the summary.
    """

    __slots__ = ("usage",)

    usage: dict[str, int]

    def __new__(cls, text: str, usage: dict[str, int]) -> Reply:
        """Make the action."""
        reply = super().__new__(cls, text)
        reply.usage = usage
        return reply

    def __getnewargs__(self) -> tuple[str, dict[str, int]]:  # type: ignore[override]
        """Return the arguments that rebuild the action from a pickle or a copy."""
        return str(self), self.usage


class AgentError(RuntimeError):
    """The agent cannot act; the episode is recorded as failed and the run goes on."""


class Agent(Protocol):
    """Plays episodes, several at a time from several threads.

    Attributes:
        recipe: The context that it needs: ``"none"`` for an agent that writes native commands, ``"default"`` or
            another one for a model that reads chat messages.
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
