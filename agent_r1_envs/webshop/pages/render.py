"""Pages as observations: the original's two text modes, and a page for people."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from agent_r1_envs.webshop.pages.elements import Element, Kind

__all__ = ["SEPARATOR", "ansi", "plain", "rich"]

SEPARATOR: Final = " [SEP] "


def plain(elements: Iterable[Element]) -> str:
    """Return the mode ``text``: the stripped texts, separated."""
    return SEPARATOR.join([element.text.strip() for element in elements if element.text is not None])


def rich(elements: Iterable[Element], *, url: str, visited: Collection[str]) -> str:
    """Return the mode ``text_rich``: one text a line, buttons marked, and what was clicked named at the top.

    Args:
        elements: The page.
        url: Its address: an option counts as clicked if its value stands in it, between double quotes.
        visited: The products that count as clicked.
    """
    lines: list[str] = []
    clicked: list[str] = []
    for element in elements:
        shown = element.text
        if shown is None:
            continue
        if element.kind is Kind.BUTTON:
            lines.append(f"[button] {shown} [button_]\n")
        elif element.kind is Kind.LINK:
            word = "clicked button" if shown in visited else "button"
            lines.append(f"\n[{word}] {shown} [{word}_]\n")
        elif element.kind is Kind.OPTION:
            if f'"{shown}"' in url:
                lines.append(f"  [clicked button] {shown} [clicked button_]\n")
                clicked.append(f"You have clicked {shown}.\n")
            else:
                lines.append(f"  [button] {shown} [button_]\n")
        else:
            lines.append(f"{shown}\n")
    return "".join([*reversed(clicked), *lines])


def ansi(elements: Iterable[Element], *, options: Mapping[str, str], visited: Collection[str]) -> str:
    """Return the page for people: buttons in brackets, one thing a line, and what is selected ticked."""
    lines: list[str] = []
    row: list[str] = []  # buttons stand side by side

    def end_row() -> None:
        if row:
            lines.append("  ".join(row))
            row.clear()

    for element in elements:
        if element.text is None or not element.text.strip():
            continue
        shown = element.text.strip()
        if element.kind is Kind.BUTTON:
            row.append(f"[{shown}]")
            continue
        end_row()
        if element.kind is Kind.LINK:
            lines.append(f"\n> {shown}{' (seen)' if shown in visited else ''}")
        elif element.kind is Kind.OPTION:
            lines.append(f"  ({'x' if options.get(element.group) == element.value else ' '}) {shown}")
        else:
            lines.append(shown)
    end_row()
    return "\n".join(lines)
