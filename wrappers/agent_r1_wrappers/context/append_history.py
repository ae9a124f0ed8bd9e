"""From text to chat: the whole conversation so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.names import is_name, load_name
from agent_r1_envs.spaces import Message, Messages
from agent_r1_envs.text import clean, is_unicode
from agent_r1_wrappers.fitting import fit_space, json_bound
from agent_r1_wrappers.formats.action_format import INSTRUCTION_KEY
from agent_r1_wrappers.stack import WrapperState, require_text


@dataclass(frozen=True, slots=True)
class Transition:
    """One turn.

    Attributes:
        action: The command that the env got; the reply itself where no action format read one.
        reply: What was passed to ``step``.
        observation: What the env answered.
        info: The ``info`` of that answer.
    """

    action: str
    reply: str
    observation: str
    info: dict[str, Any]


@dataclass(frozen=True)
class HistoryState(WrapperState):
    """The state of an :class:`AppendHistory`."""

    messages: tuple[Message, ...]
    history: tuple[Transition, ...]
    first_observation: str
    reset_info: dict[str, Any]


class AppendHistory(gymnasium.Wrapper[Any, str, str, str], RecordConstructorArgs):
    """Emits the conversation as chat messages: system, first observation, then each reply and the observation after it.

    Each observation is a fresh list of THE SAME message objects as before and two more, and the content of an assistant
    message IS the reply that was passed to ``step`` (the same object): by identity a consumer sees that one prompt
    extends the last. Treat messages as read-only.

    The system message is ``system``, then what an action format below says in ``info["format_instruction"]``.

    A conversation longer than the space holds loses its oldest turns in the observation, as
    :class:`~agent_r1_wrappers.context.truncate_history.TruncateHistory` would do it; :attr:`history` keeps everything.

    Attributes:
        history: One :class:`Transition` a turn of the episode.
        first_observation: The env's observation at reset.
        reset_info: The ``info`` of reset.

    Args:
        env: An env with text observations and actions.
        system: The beginning of the system message, or ``"module:NAME"`` of it; without it and without a format there
            is no system message.
        observation_role: The role of every observation but the first, which is the user's. Not every chat template
            knows ``"tool"``.
        max_length: The size of the space of observations, in characters of JSON. ``AsyncVectorEnv`` reserves four
            bytes for each.

    Raises:
        WrapperOrderError: If observations or actions of ``env`` are not text.
        ValueError: If an argument is out of its range.
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        *,
        system: str | None = None,
        observation_role: Literal["user", "tool"] = "user",
        max_length: int = 1_048_576,
    ) -> None:
        RecordConstructorArgs.__init__(self, system=system, observation_role=observation_role, max_length=max_length)
        gymnasium.Wrapper.__init__(self, env)
        require_text(self, env)
        if observation_role not in ("user", "tool"):
            raise ValueError(f"observation_role is 'user' or 'tool', got {observation_role!r}")
        if max_length < 1024:
            raise ValueError(f"max_length must be at least 1024, got {max_length}")
        self._space = Messages(max_length)
        self.observation_space = self._space
        self._system = load_name(system) if is_name(system) else system
        self._role = observation_role
        self._messages: list[Message] = []
        self._bound = 0.0
        self.history: list[Transition] = []
        self.first_observation = ""
        self.reset_info: dict[str, Any] = {}

    @property
    def messages(self) -> list[Message]:
        """The whole conversation, as a fresh list."""
        return list(self._messages)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """Begin an episode and a conversation."""
        observation, info = self.env.reset(seed=seed, options=options)
        system = "\n\n".join(text for text in (self._system, info.get(INSTRUCTION_KEY)) if text)
        self.history = []
        self.first_observation = observation
        self.reset_info = dict(info)
        self._messages, self._bound = [], 0.0
        if system:
            self._append("system", system)
        self._append("user", observation)
        return self._emitted(), info

    def step(self, action: str) -> tuple[list[Message], Any, bool, bool, dict[str, Any]]:
        """Pass the reply on, and add it and the answer to the conversation."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        reply = action if isinstance(action, str) else str(action)
        content = reply if is_unicode(reply) else clean(reply)
        self._append("assistant", content)
        self._append(self._role, observation)
        self.history.append(Transition(info.get("action", reply), reply, observation, dict(info)))
        return self._emitted(), reward, terminated, truncated, info

    def get_wrapper_state(self) -> HistoryState:
        """Return the conversation, for a snapshot."""
        return HistoryState(tuple(self._messages), tuple(self.history), self.first_observation, self.reset_info)

    def set_wrapper_state(self, state: HistoryState) -> None:
        """Go back to a conversation that :meth:`get_wrapper_state` returned."""
        self._messages = list(state.messages)
        self._bound = sum(map(json_bound, self._messages))
        self.history = list(state.history)
        self.first_observation = state.first_observation
        self.reset_info = state.reset_info

    def _append(self, role: str, content: str) -> None:
        message: Message = {"role": role, "content": content}
        self._messages.append(message)
        self._bound += json_bound(message)

    def _emitted(self) -> list[Message]:
        return fit_space(list(self._messages), self._space, self._bound)
