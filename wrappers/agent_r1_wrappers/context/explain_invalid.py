"""Why an action was invalid, for the model to read."""

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.spaces import FreeText
from agent_r1_envs.text import clean, cut
from agent_r1_wrappers.stack import require_text

_REASON_LENGTH = 500


class ExplainInvalid(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Appends ``info["invalid_action"]`` to an observation that does not say it already.

    Many benchmarks answer a bad action with a phrase such as "Nothing happens.", or by repeating themselves. Put it
    above the action format, so that a reply without a valid call is explained too.

    Args:
        env: An env with text observations and actions.
        template: What is appended, with ``{reason}`` in the place of the reason.

    Raises:
        WrapperOrderError: If observations or actions of ``env`` are not text.
        ValueError: If the template has no ``{reason}``.
    """

    stateless = True

    def __init__(self, env: gymnasium.Env[str, str], *, template: str = "Invalid action: {reason}") -> None:
        RecordConstructorArgs.__init__(self, template=template)
        gymnasium.Wrapper.__init__(self, env)
        space = require_text(self, env)
        if "{reason}" not in template:
            raise ValueError(f"template must hold '{{reason}}', got {template!r}")
        self.observation_space = FreeText(space.max_length + len(template) + _REASON_LENGTH + 1)
        self._template = template

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Pass the reply on and explain what was wrong with it, if anything was."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        reason = info.get("invalid_action")
        if reason and reason not in observation:
            text = self._template.replace("{reason}", cut(clean(reason), _REASON_LENGTH), 1)
            observation = f"{observation}\n{text}" if observation else text
        return observation, reward, terminated, truncated, info
