"""One tag a tool: ``<search>query</search>`` and ``<answer>text</answer>``, the format of Search-R1."""

from collections.abc import Mapping

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.actions import MalformedAction
from agent_r1_envs.tools import Call, format_calls, parse_calls
from agent_r1_wrappers.formats.action_format import ActionFormat
from agent_r1_wrappers.formats.tags import TagError, Tagged, Tags
from agent_r1_wrappers.stack import WrapperOrderError

_MAX_CALLS = 64


class ParseToolTags(ActionFormat):
    """Takes calls from elements whose tag names a tool and whose text is the tool's primary argument.

    Several elements are several calls, in order; text outside of them is ignored. Otherwise it reads as
    :class:`~agent_r1_wrappers.formats.parse_tags.ParseTags` does.

    With ``first_only`` the call that is completed first counts and the rest of the reply is ignored, as where
    generation ends at a closing tag. Reset's ``info["stop_strings"]`` asks for just that; where replies come from
    elsewhere and go on, they mean the same.

    Args:
        env: A tool env.
        tags: Tag -> tool. By default each tool that takes a single text has a tag of its own name.
        think: The tag of thinking; None if there is none.
        unclosed: As for ``ParseTags``.
        first_only: Whether a reply is its first call, and ends with it.
        instruct: Whether to tell the model the format.

    Raises:
        WrapperOrderError: If ``env`` has no tools.
        ValueError: If a tag names no tool that takes a single text, or an argument is out of its range.
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        *,
        tags: Mapping[str, str] | None = None,
        think: str | None = "think",
        unclosed: str = "invalid",
        first_only: bool = False,
        instruct: bool = True,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            tags=tags and dict(tags),
            think=think,
            unclosed=unclosed,
            first_only=first_only,
            instruct=instruct,
        )
        super().__init__(env, instruct=instruct)
        if unclosed not in ("invalid", "accept"):
            raise ValueError(f"unclosed is 'invalid' or 'accept', got {unclosed!r}")
        if not self.env_tools:
            raise WrapperOrderError(self, "needs an env with tools", "Use ParseTags for plain commands.")
        if tags is None:
            tags = {name: name for name, tool in self._shown_tools().items() if tool.primary is not None}
        for tag, tool in tags.items():
            if tool not in self.env_tools or self.env_tools[tool].primary is None:
                raise ValueError(f"tag {tag!r}: the env has no tool {tool!r} that takes a single text")
        self._tags = Tags(tags, think)
        self._tool_of = dict(tags)
        self._tag_of = {tool: tag for tag, tool in reversed(list(self._tool_of.items()))}
        self._think = think
        self._accept_unclosed = unclosed == "accept"
        self._first_only = first_only

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """The closing tags where the first call counts."""
        return tuple(f"</{tag}>" for tag in self._tool_of) if self._first_only else ()

    def parse(self, reply: str) -> str | MalformedAction:
        """Return the calls as a command, or why there is none."""
        try:
            found = self._read(reply)
        except TagError as error:
            return MalformedAction(reply, str(error))
        if not found:
            forms = " or ".join(f"<{tag}>...</{tag}>" for tag in self._tool_of)
            return MalformedAction(reply, f"there is no {forms} in the reply")
        if len(found) > _MAX_CALLS:
            return MalformedAction(reply, f"there are {len(found)} calls in the reply")
        return format_calls(
            [self._call(self._tool_of[element.name], element.text) for element in found], self.env_tools
        )

    def format(self, command: str, thought: str = "") -> str:
        """Return the calls in their tags, one a line, after the thinking.

        Raises:
            ValueError: If the command holds another call than of a tagged tool with a text as its only argument, or
                several where only the first would count.
        """
        elements = []
        for call in parse_calls(command, self.env_tools, max_calls=_MAX_CALLS):
            tag = self._tag_of.get(call.name)
            text = call.arguments.get(self.env_tools[call.name].primary or "") if tag else None
            if tag is None or not isinstance(text, str) or len(call.arguments) != 1:
                raise ValueError(f"no tag can hold the call {call}")
            elements.append(self._tags.write(tag, text))
        if self._first_only and len(elements) > 1:
            raise ValueError(f"a reply holds one call, not {len(elements)}: {command!r}")
        thinking = f"<{self._think}>{self._tags.escape(thought)}</{self._think}>\n" if self._think and thought else ""
        return thinking + "\n".join(elements)

    def instruction(self) -> str:
        """Return which tags to use."""
        first = f"Think inside <{self._think}>...</{self._think}>, then act:" if self._think else "Act with:"
        lines = [
            f"- <{tag}>{self.env_tools[tool].primary}</{tag}>: {self.env_tools[tool].description}"
            for tag, tool in self._tool_of.items()
        ]
        return "\n".join([first, *lines])

    def _read(self, reply: str) -> list[Tagged]:
        if not self._first_only:
            return self._tags.read(reply, unclosed=self._accept_unclosed)
        element = self._tags.first(reply, unclosed=self._accept_unclosed)
        return [] if element is None else [element]

    def _call(self, tool: str, text: str) -> Call:
        return Call(tool, {self.env_tools[tool].primary or "": text})
