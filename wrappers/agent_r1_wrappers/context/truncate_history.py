"""Only the last turns."""

from collections.abc import Callable
from typing import Any, Literal

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.spaces import Message
from agent_r1_wrappers.callables import recordable
from agent_r1_wrappers.context.context_operation import ContextOperation
from agent_r1_wrappers.fitting import fit, join_turns, message_length, split_turns


class TruncateHistory(ContextOperation, RecordConstructorArgs):
    """Leaves out the oldest turns. The system message, the first observation and the last turn always stay.

    Where these alone exceed ``tokens``, texts are cut in the middle around a mark, ``[... n characters left out ...]``,
    each only as far as needed: the last observation first, then the reply before it, then the first observation. The
    system message is never cut.

    Args:
        env: An env that emits chat messages.
        turns: The most turns to keep, at least 1; None for no limit.
        tokens: The most that ``length`` may give; None for no limit.
        length: Measures text or messages: a callable or ``"module:function"``. The default estimates tokens from words
            and characters. With a tokenizer: ``lambda text: len(tokenizer.encode(text))``.
        length_of: ``"text"`` if ``length`` measures the text of a message, ``"messages"`` if it measures a whole list.

    Raises:
        WrapperOrderError: If ``env`` does not emit chat messages.
        ValueError: If there is no limit, or one below 1.
    """

    stateless = True

    def __init__(
        self,
        env: gymnasium.Env[list[Message], str],
        *,
        turns: int | None = None,
        tokens: int | None = None,
        length: str | Callable[..., int] = "agent_r1_wrappers.fitting:estimate_tokens",
        length_of: Literal["text", "messages"] = "text",
    ) -> None:
        length = recordable(length)
        RecordConstructorArgs.__init__(self, turns=turns, tokens=tokens, length=length, length_of=length_of)
        super().__init__(env)
        if turns is None and tokens is None:
            raise ValueError("give turns, tokens or both")
        for name, limit in (("turns", turns), ("tokens", tokens)):
            if limit is not None and limit < 1:
                raise ValueError(f"{name} must be at least 1, got {limit}")
        self._turns = turns
        self._tokens = tokens
        self._length = message_length(length, length_of)

    def rewrite(self, messages: list[Message], info: dict[str, Any]) -> list[Message]:
        """Return the messages that are kept."""
        if self._turns is not None:
            head, turns = split_turns(messages)
            messages = join_turns(head, turns[-self._turns :])
        return messages if self._tokens is None else fit(messages, self._tokens, self._length)
