"""The base of context operations: wrappers that change which messages the model sees."""

from abc import ABC, abstractmethod
from typing import Any

import gymnasium

from agent_r1_envs.spaces import Message
from agent_r1_wrappers.fitting import fit_space
from agent_r1_wrappers.stack import require_messages


class ContextOperation(gymnasium.Wrapper[list[Message], str, list[Message], str], ABC):
    """Maps messages to messages.

    A subclass implements :meth:`rewrite`. It leaves the messages that it gets as they are, because the history below
    shares them, and makes a new dict for a message that it changes. What it hides is never lost: it stays in
    ``AppendHistory.history``.

    Raises:
        WrapperOrderError: If ``env`` does not emit chat messages.
    """

    def __init__(self, env: gymnasium.Env[list[Message], str]) -> None:
        gymnasium.Wrapper.__init__(self, env)
        self._space = require_messages(self, env)

    @abstractmethod
    def rewrite(self, messages: list[Message], info: dict[str, Any]) -> list[Message]:
        """Return the messages that the model sees.

        Args:
            messages: The messages from below, in a list that may be changed.
            info: The ``info`` of this reset or step.
        """

    def begin(self) -> None:
        """Forget the last episode; called by reset before :meth:`rewrite`."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """Begin an episode."""
        messages, info = self.env.reset(seed=seed, options=options)
        self.begin()
        return fit_space(self.rewrite(list(messages), info), self._space), info

    def step(self, action: str) -> tuple[list[Message], Any, bool, bool, dict[str, Any]]:
        """Pass the reply on and rewrite the messages that come back."""
        messages, reward, terminated, truncated, info = self.env.step(action)
        return fit_space(self.rewrite(list(messages), info), self._space), reward, terminated, truncated, info
