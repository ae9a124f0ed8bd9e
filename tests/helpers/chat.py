"""The smallest wrapper that turns text into chat messages."""

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.spaces import Message, Messages


class Chat(gymnasium.ObservationWrapper[list[Message], str, str], RecordConstructorArgs):
    """Shows each observation as a conversation of a system and a user message."""

    stateless = True

    def __init__(self, env: gymnasium.Env[str, str], system: str = "Où habite-t-il ?") -> None:
        RecordConstructorArgs.__init__(self, system=system)
        super().__init__(env)
        self.system = system
        self.observation_space = Messages(50_000)

    def observation(self, observation: str) -> list[Message]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": self.system}]
        return [*messages, {"role": "user", "content": observation}]
