r"""Text inside tags such as ``<action>..</action>``, in a form that holds any text exactly.

Two rules make writing invertible without touching what models normally write:

* A tag inside the text gets a backslash after its ``<`` (``<\/action>``), and one that has backslashes gets one more.
  Reading takes one away.
* White space around the text is dropped unless the tag says ``xml:space="preserve"``. Writing says so where it matters.

Thinking is text inside a tag too, but a model writes it freely: all that is looked for is where it ends.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


class UnclosedThinkingError(ValueError):
    """The reply opens thinking and never closes it."""


def opens_thinking(reply: str) -> bool:
    """Return whether the reply begins with ``<think>``."""
    return reply.lstrip().startswith(THINK_OPEN)


def thinking_end(reply: str) -> int:
    """Return the position behind the first ``</think>``, 0 if there is none.

    A template may have opened the thinking in the prompt, so the reply need not.

    Raises:
        UnclosedThinkingError: If the reply begins with ``<think>`` and does not close it.
    """
    end = reply.find(THINK_CLOSE)
    if end >= 0:
        return end + len(THINK_CLOSE)
    if opens_thinking(reply):
        raise UnclosedThinkingError("<think> is not closed by </think>")
    return 0


_PRESERVE = ' xml:space="preserve"'
_NAME = re.compile(r"[A-Za-z][\w-]*")


class TagError(ValueError):
    """A reply whose tags cannot be read in one way; the message says why, for the model."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """One element: the name of its tag and the text inside."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    closing: bool
    preserve: bool
    start: int
    end: int


class Tags:
    """Reader and writer of a fixed set of tags.

    Args:
        names: The tags that hold commands.
        think: The tag that holds thinking, which is skipped; ``None`` for none.

    Raises:
        ValueError: If a name is no tag name or is used twice.
    """

    def __init__(self, names: Iterable[str], think: str | None = "think") -> None:
        self.names = tuple(names)
        self.think = think
        every = [*self.names] + ([think] if think is not None else [])
        for name in every:
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot be the name of a tag: letters, digits, '-' and '_' only")
        self._canonical = {name.lower(): name for name in every}
        if not self.names or len(self._canonical) != len(every):
            raise ValueError(f"tag names must be given and differ, not only in case: {every}")
        names_pattern = "|".join(re.escape(name) for name in sorted(every, key=len, reverse=True))
        self._pattern = re.compile(rf"<(\\*+)(/?)({names_pattern})({re.escape(_PRESERVE)})?>", re.IGNORECASE)

    def write(self, name: str, text: str) -> str:
        """Return ``<name>text</name>`` such that :meth:`read` gives the text back exactly."""
        preserve = _PRESERVE if text != text.strip() or not text else ""
        return f"<{name}{preserve}>{self.escape(text)}</{name}>"

    def escape(self, text: str) -> str:
        """Return the text with a backslash in each of this set's tags."""
        return self._pattern.sub(lambda match: "<\\" + match[0][1:], text)

    def unescape(self, text: str) -> str:
        """Undo :meth:`escape`."""
        return self._pattern.sub(lambda match: "<" + match[0][2:] if match[1] else match[0], text)

    def read(self, reply: str, *, unclosed: bool = False) -> list[Tagged]:
        """Return the command elements that follow the thinking, in order.

        Args:
            reply: The model's reply. Text outside of elements is ignored.
            unclosed: Whether the last element may lack its closing tag (where generation stops at that tag).

        Raises:
            TagError: If an element is not closed, not opened, empty or inside another one.
        """
        tags = self._after_thinking(reply)
        return [self._element(reply, *pair, unclosed) for pair in zip_longest(tags[0::2], tags[1::2])]

    def first(self, reply: str, *, unclosed: bool = False) -> Tagged | None:
        """Return the element that a reply completes first; what follows does not matter.

        It is what would have been read had generation ended at that closing tag. So thinking is no exception: a tag in
        it is not told from one behind it, and other opening tags inside the element are text.

        Args:
            reply: The model's reply.
            unclosed: Whether, where no tag is closed, the first element may lack its closing tag.

        Returns:
            The element, or None if there is no tag.

        Raises:
            TagError: If the element is not opened, not closed or empty.
        """
        openings: dict[str, _Tag] = {}
        for tag in self._tags(reply):
            if tag.name == self.think:
                continue
            if not tag.closing:
                openings.setdefault(tag.name, tag)
            elif tag.name in openings:
                return self._element(reply, openings[tag.name], tag, unclosed)
            else:
                return self._element(reply, tag, None, unclosed)
        opening = next(iter(openings.values()), None)
        return None if opening is None else self._element(reply, opening, None, unclosed)

    def thinks(self, reply: str) -> bool:
        """Return whether the reply closes a thinking element."""
        return any(tag.name == self.think and tag.closing for tag in self._tags(reply))

    def _tags(self, reply: str) -> Iterator[_Tag]:
        for match in self._pattern.finditer(reply):
            if not match[1]:  # no backslash
                yield _Tag(
                    self._canonical[match[3].lower()], bool(match[2]), bool(match[4]), match.start(), match.end()
                )

    def _after_thinking(self, reply: str) -> list[_Tag]:
        """Return the command tags behind the first closed thinking; a template may have opened it in the prompt."""
        tags = list(self._tags(reply))
        for index, tag in enumerate(tags):
            if tag.name == self.think and tag.closing:
                tags = tags[index + 1 :]
                break
        else:
            if tags and tags[0].name == self.think:
                raise TagError(f"<{self.think}> is not closed by </{self.think}>")
        return [tag for tag in tags if tag.name != self.think]

    def _element(self, reply: str, opening: _Tag, closing: _Tag | None, unclosed: bool) -> Tagged:
        if opening.closing:
            raise TagError(f"</{opening.name}> has no <{opening.name}> before it")
        if closing is None and not unclosed:
            raise TagError(f"<{opening.name}> is not closed by </{opening.name}>")
        if closing is not None and (not closing.closing or closing.name != opening.name):
            slash = "/" if closing.closing else ""
            raise TagError(f"<{opening.name}> is followed by <{slash}{closing.name}> before it is closed")
        text = self.unescape(reply[opening.end : closing.start if closing else len(reply)])
        if not opening.preserve:
            text = text.strip()
            if not text:
                raise TagError(f"<{opening.name}> is empty")
        return Tagged(opening.name, text)
