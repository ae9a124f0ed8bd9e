"""The parts of a Google-style docstring that a model needs to know."""

from __future__ import annotations

import inspect
import re

__all__ = ["parse_docstring"]

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Warnings?|Attributes|See Also|Todo):"
)
_ARGUMENT = re.compile(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")


def parse_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Split a docstring into what it says of the function and of each argument.

    Args:
        docstring: A docstring in Google style, or None.

    Returns:
        The text before the first section, with single line breaks joined, and the arguments' descriptions by name.
    """
    description: list[str] = []
    arguments: dict[str, list[str]] = {}
    section = ""
    current: list[str] = []
    indent = 0
    for line in inspect.cleandoc(docstring or "").split("\n"):
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if depth == 0 and _SECTION.fullmatch(text):
            section, indent = text, 0
        elif not section:
            description.append(text)
        elif section in ("Args:", "Arguments:", "Parameters:") and text:
            indent = indent or depth
            entry = _ARGUMENT.fullmatch(text) if depth == indent else None
            if entry:
                current = arguments.setdefault(entry[1], [])
                text = entry[2]
            current.append(text)
    paragraphs = "\n".join(description).strip().split("\n\n")
    whole = "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)
    return whole, {name: " ".join(lines).strip() for name, lines in arguments.items()}
