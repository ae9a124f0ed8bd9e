"""Commands inside a tag: ``<think>..</think><action>..</action>``."""

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.actions import MalformedAction
from agent_r1_wrappers.formats.action_format import ActionFormat, describe_tools
from agent_r1_wrappers.formats.tags import TagError, Tags


class ParseTags(ActionFormat):
    """Takes the command from the one ``<action>`` element that follows the thinking.

    Tags are read in any case. Text outside of the elements is ignored. A reply with no element, several, or one that
    is not closed is malformed. See :mod:`agent_r1_wrappers.formats.tags` for how a command that itself holds tags is
    written.

    Args:
        env: An env with text observations and actions.
        think: The tag of thinking, which is skipped up to the first closing one; None if there is none.
        action: The tag of the command.
        require_think: Whether a reply without thinking is malformed.
        unclosed: ``"accept"`` where generation stops before the closing tag, which is then no part of the reply. With
            ``"invalid"`` such a reply is malformed, because a reply cut off in the middle looks the same.
        instruct: Whether to tell the model the format.

    Raises:
        ValueError: If a tag is none, or an argument is out of its range.

    Example:
        >>> import gymnasium, agent_r1_envs
        >>> env = ParseTags(gymnasium.make("AgentR1/HotpotQA-v0"))
        >>> env.parse("<think>Dublin?</think><action>search[Dubliners]</action>")
        'search[Dubliners]'
        >>> env.parse("search[Dubliners]").reason
        'there is no <action>...</action> in the reply'
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        *,
        think: str | None = "think",
        action: str = "action",
        require_think: bool = False,
        unclosed: str = "invalid",
        instruct: bool = True,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, think=think, action=action, require_think=require_think, unclosed=unclosed, instruct=instruct
        )
        super().__init__(env, instruct=instruct)
        if unclosed not in ("invalid", "accept"):
            raise ValueError(f"unclosed is 'invalid' or 'accept', got {unclosed!r}")
        if require_think and think is None:
            raise ValueError("require_think needs a tag for thinking")
        self._tags = Tags([action], think)
        self._think, self._action = think, action
        self._require_think = require_think
        self._accept_unclosed = unclosed == "accept"

    def parse(self, reply: str) -> str | MalformedAction:
        """Return the text of the command element, or why there is none."""
        try:
            found = self._tags.read(reply, unclosed=self._accept_unclosed)
        except TagError as error:
            return MalformedAction(reply, str(error))
        if not found:
            return MalformedAction(reply, f"there is no <{self._action}>...</{self._action}> in the reply")
        if len(found) > 1:
            return MalformedAction(reply, f"there are {len(found)} <{self._action}> elements, give one")
        if self._require_think and not self._tags.thinks(reply):
            return MalformedAction(reply, f"there is no <{self._think}>...</{self._think}> before the action")
        return found[0].text

    def format(self, command: str, thought: str = "") -> str:
        """Return the command in its tag, after the thinking."""
        element = self._tags.write(self._action, command)
        if self._think is None or not (thought or self._require_think):
            return element
        return f"<{self._think}>{self._tags.escape(thought)}</{self._think}>\n{element}"

    def instruction(self) -> str:
        """Return which tags to use, and the commands of a tool env."""
        first = f"Think inside <{self._think}>...</{self._think}>, then give" if self._think else "Give"
        text = f"{first} exactly one action inside <{self._action}>...</{self._action}>."
        commands = describe_tools(self._shown_tools().values())
        return f"{text}\nActions:\n{commands}" if commands else text
