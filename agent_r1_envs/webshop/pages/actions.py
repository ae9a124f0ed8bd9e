"""The two commands, ``search[words]`` and ``click[name]``, as the original reads them and without its surprises."""

import re
from typing import Final

__all__ = ["QUERY_PLACEHOLDER", "admissible", "clickable", "parse_action"]

QUERY_PLACEHOLDER: Final = "search[<your query>]"

_REVISED: Final = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)


def parse_action(action: str, *, nested_brackets: bool = False) -> tuple[str, str] | None:
    r"""Split an action into name and lower-cased argument; None if it has not this form.

    The original matches ``(.+)\[(.+)\]`` at the start, so what counts is the first line, its last ``]`` and the last
    ``[`` with something in between; anything may follow. The same is found here without a regular expression, which
    would need time in the square of the length of ``[[[[...``.

    Args:
        action: What the agent wrote.
        nested_brackets: Whether the argument reaches from the first bracket to the last, over lines if need be.

    Example:
        >>> parse_action("search[Red Lamp] thanks")
        ('search', 'red lamp')
        >>> parse_action("click[set [2]]")
        ('click[set ', '2]')
        >>> parse_action("click[set [2]]", nested_brackets=True)
        ('click', 'set [2]')
    """
    if nested_brackets:
        match = _REVISED.fullmatch(action)
        if match is None or not match[2].strip():
            return None
        return match[1].lower(), match[2].lower()
    end = action.find("\n")
    line = action if end < 0 else action[:end]
    last = line.rfind("]")
    first = line.rfind("[", 1, max(last - 1, 0))  # something before it, and something between the two
    if first < 0:
        return None
    return line[:first], line[first + 1 : last].lower()


def clickable(name: str, *, nested_brackets: bool) -> bool:
    """Tell whether ``click[name]`` means ``name``, so that the agent can click it at all."""
    if name.isalnum() and name == name.lower():
        return True  # nearly all names, and at once
    return parse_action(f"click[{name}]", nested_brackets=nested_brackets) == ("click", name)


def admissible(names: tuple[str, ...], *, nested_brackets: bool) -> tuple[str, ...]:
    """Return the commands that click what can be clicked; the search button cannot, it needs words."""
    return tuple(
        f"click[{name}]" for name in names if name != "search" and clickable(name, nested_brackets=nested_brackets)
    )
