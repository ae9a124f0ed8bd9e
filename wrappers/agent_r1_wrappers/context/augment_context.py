"""What the model should see beside the observation: admissible actions, turns left, notes, retrieved text."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.spaces import Text
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.spaces import FreeText, Message, Messages
from agent_r1_envs.text import clean, cut
from agent_r1_wrappers.callables import load_callable, recordable
from agent_r1_wrappers.fitting import fit_space
from agent_r1_wrappers.stack import require_messages, require_text, turn_limit


class AugmentContext(gymnasium.Wrapper[Any, str, Any, str], RecordConstructorArgs):
    """Adds a block to the newest observation.

    It works on either side of ``AppendHistory``. Below, the block becomes part of the observation and stays in the
    conversation, so prompts still grow by appending. Above, only the newest message has a block: prompts are shorter,
    but each one is rendered afresh.

    Args:
        env: An env that emits text or chat messages.
        admissible_actions: Whether to list ``info["admissible_actions"]``, where there are any.
        remaining_turns: Whether to say how many turns are left.
        notes: A text that is always added.
        retrieve: What finds text for an observation: a callable or ``"module:function"`` from the observation and
            ``info`` to a text or a list of texts.
        max_turns: The turn limit, where no ``TimeLimit`` is inside ``env``.
        max_length: The most characters of a block; the rest is cut off.

    Raises:
        WrapperOrderError: If ``env`` emits neither text nor chat messages.
        ValueError: If ``remaining_turns`` is asked for and no limit is known, or ``max_length`` is below 1.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, str],
        *,
        admissible_actions: bool = True,
        remaining_turns: bool = False,
        notes: str | None = None,
        retrieve: str | Callable[[str, dict[str, Any]], str | Sequence[str]] | None = None,
        max_turns: int | None = None,
        max_length: int = 8192,
    ) -> None:
        retrieve = recordable(retrieve)
        RecordConstructorArgs.__init__(
            self,
            admissible_actions=admissible_actions,
            remaining_turns=remaining_turns,
            notes=notes,
            retrieve=retrieve,
            max_turns=max_turns,
            max_length=max_length,
        )
        gymnasium.Wrapper.__init__(self, env)
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        if isinstance(env.observation_space, Text):
            self.observation_space = FreeText(require_text(self, env).max_length + max_length + 1)
        else:
            space = require_messages(self, env)
            self.observation_space = Messages(space.max_length, space.max_messages)
        self._limit = max_turns if max_turns is not None else turn_limit(env)
        if remaining_turns and self._limit is None:
            raise ValueError("remaining_turns: no TimeLimit inside the env, so give max_turns")
        self._show_actions = admissible_actions
        self._show_turns = remaining_turns
        self._notes = notes
        self._retrieve = None if retrieve is None else load_callable(retrieve, "retrieve")
        self._max_length = max_length
        self._turn = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._turn = 0
        return self._augmented(observation, info), info

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Pass the reply on and augment what comes back."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._turn += 1
        return self._augmented(observation, info), reward, terminated, truncated, info

    def get_wrapper_state(self) -> int:
        """Return the number of turns done, for a snapshot."""
        return self._turn

    def set_wrapper_state(self, state: int) -> None:
        """Go back to a state that :meth:`get_wrapper_state` returned."""
        self._turn = state

    def _augmented(self, observation: str | list[Message], info: dict[str, Any]) -> str | list[Message]:
        if isinstance(observation, str):
            block = self._block(observation, info)
            return f"{observation}\n{block}" if block else observation
        last = observation[-1]
        block = self._block(last["content"], info)
        if not block:
            return observation
        augmented = [*observation[:-1], {**last, "content": f"{last['content']}\n{block}"}]
        assert isinstance(self.observation_space, Messages)
        return fit_space(augmented, self.observation_space)

    def _block(self, observation: str, info: dict[str, Any]) -> str:
        parts: list[str] = []
        if self._retrieve is not None:
            found = self._retrieve(observation, info)
            parts.extend([found] if isinstance(found, str) else found)
        if self._notes:
            parts.append(self._notes)
        if self._show_actions and info.get("admissible_actions"):
            parts.append("Admissible actions:\n" + "\n".join(info["admissible_actions"]))
        if self._show_turns and self._limit is not None:
            parts.append(f"Turns left: {max(self._limit - self._turn, 0)}")
        return cut(clean("\n".join(part for part in parts if part)), self._max_length)
