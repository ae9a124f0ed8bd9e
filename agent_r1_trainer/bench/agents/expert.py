"""The agent that asks the env itself: the ceiling of every table, and the proof that the tasks can be solved."""

from __future__ import annotations

from typing import Any

import gymnasium
from agent_r1_wrappers import reply_for

from agent_r1_trainer.bench.agents.base import Act, AgentError

__all__ = ["ExpertAgent"]


class ExpertAgent:
    """Plays ``env.unwrapped.expert_action()``."""

    recipe = "none"

    def begin(self, env: gymnasium.Env[Any, Any], info: dict[str, Any], seed: int) -> Act:
        """Begin an episode.

        Raises:
            AgentError: The env has no ``expert_action``.
        """
        expert = getattr(env.unwrapped, "expert_action", None)
        if expert is None:
            raise AgentError(f"{type(env.unwrapped).__name__} has no expert_action()")

        def act(observation: Any, info: dict[str, Any]) -> str:
            action = expert()
            if action is None:
                raise AgentError("the env knows no good action from here")
            return reply_for(env, str(action))

        return act
