"""What a page is made of: texts, buttons, links to products, and options, in their order on the page."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from agent_r1_envs.text import clean, is_unicode

__all__ = ["Element", "Kind", "button", "link", "option", "pre", "targets", "text"]

_SPACES: Final = " \n\t\f\r"


class Kind(Enum):
    """What can be done with an element."""

    TEXT = "text"
    BUTTON = "button"
    LINK = "link"
    OPTION = "option"


class Element(NamedTuple):
    """One piece of a page.

    Attributes:
        kind: What it is.
        text: What it reads; None where an HTML parser finds nothing that is text, so that no observation shows it.
        key: What is clicked; None for a text.
        value: The value of an option, the id of a linked product.
        group: The group of an option.
    """

    kind: Kind
    text: str | None
    key: str | None = None
    value: str = ""
    group: str = ""


def text(raw: str) -> Element:
    """Return a text between tags."""
    return Element(Kind.TEXT, _between_tags(raw))


def pre(raw: str) -> Element:
    """Return a text whose white space the parser keeps."""
    return Element(Kind.TEXT, None if raw in ("", "\n") else _valid(raw))


def button(label: str) -> Element:
    """Return a button, clicked by its lower-cased label."""
    return Element(Kind.BUTTON, label, label.lower())


def link(asin: str) -> Element:
    """Return a link to a product, clicked by its lower-cased id."""
    return Element(Kind.LINK, _between_tags(asin), _collapse(asin).lower(), asin)


def option(group: str, value: str, *, qualified: bool) -> Element:
    """Return an option, clicked by its value, or by ``group: value``, which as all actions is lower-cased."""
    key = f"{group}: {value}".lower() if qualified else value
    return Element(Kind.OPTION, _between_tags(value), _valid(key), value, group)


def targets(elements: Iterable[Element]) -> dict[str, Element]:
    """Return what can be clicked, by key.

    Buttons and links come first, then options. Of several with the same key the last is meant, in the place of the
    first.
    """
    clickable = [element for element in elements if element.key is not None]
    found = {element.key: element for element in clickable if element.kind is not Kind.OPTION}
    found.update({element.key: element for element in clickable if element.kind is Kind.OPTION})
    return {key: element for key, element in found.items() if key is not None}


def _between_tags(raw: str) -> str | None:
    """Return the text of a node as the parser has it: white space alone is one space or, with a line break, nothing."""
    collapsed = _collapse(raw)
    return None if collapsed in ("", "\n") else collapsed


def _collapse(raw: str) -> str:
    if raw and not raw.strip(_SPACES):
        return "\n" if "\n" in raw else " "
    return _valid(raw)


def _valid(raw: str) -> str:
    """Replace lone surrogates, which JSON files can smuggle in."""
    return raw if is_unicode(raw) else clean(raw)
