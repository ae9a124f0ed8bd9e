"""Words for arguments that a constructor does not have: which one was meant, and which there are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent_r1_envs.names import did_you_mean

__all__ = ["argument_names", "explain_unknown", "passes_on", "unknown_argument"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_PYTHONS_WORDS = re.compile(r"(\S+\(\)) got an unexpected keyword argument '(\w+)'")


def argument_names(creator: Callable[..., Any]) -> list[str]:
    """Names of the arguments that a function or class takes.

    Of a class those of its bases count too, as far as each constructor passes on what it does not know (``**kwargs``).
    """
    names: dict[str, None] = {}
    for step in _constructors(creator):
        parameters = _parameters(step)
        names.update(dict.fromkeys(parameter.name for parameter in parameters if parameter.kind in _NAMED))
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
            break
    return list(names)


def passes_on(cls: type) -> bool:
    """Whether the constructor of a class takes arguments that it does not name."""
    first = next(iter(_constructors(cls)), None)
    return first is None or any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in _parameters(first))


def unknown_argument(owner: str, name: str, names: Iterable[str]) -> str:
    """Say that there is no argument of a name, which one may have been meant, or else which there are.

    >>> unknown_argument("TillEnv()", "tasks_count", ["count", "order"])
    "TillEnv() got an unexpected keyword argument 'tasks_count': there are count, order"
    >>> unknown_argument("TillEnv()", "oder", ["count", "order"])
    "TillEnv() got an unexpected keyword argument 'oder': did you mean 'order'?"
    """
    known = list(names)
    there_are = f"there are {', '.join(known)}" if known else ""
    hint = did_you_mean(name, known, otherwise=there_are, before=": ", form=repr)
    return f"{owner} got an unexpected keyword argument {name!r}{hint}"


def explain_unknown(error: TypeError, creator: Callable[..., Any], arguments: Mapping[str, Any]) -> TypeError | None:
    """Return an error that names the nearest argument, if a call failed because it was given one that does not exist.

    Args:
        error: What the call raised.
        creator: What was called.
        arguments: What it was called with by name.

    Returns:
        None if something else is wrong, or the error has a hint already.
    """
    found = _PYTHONS_WORDS.search(str(error))
    if found is None or found[2] not in arguments or ": did you mean" in str(error) or ": there are" in str(error):
        return None
    names = argument_names(creator)
    return None if found[2] in names else TypeError(unknown_argument(found[1], found[2], names))


def _constructors(creator: Callable[..., Any]) -> list[Callable[..., Any]]:
    if not isinstance(creator, type):
        return [creator]
    return [vars(base)["__init__"] for base in creator.__mro__ if "__init__" in vars(base)]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function of C
        return []
    return parameters[1:] if parameters and parameters[0].name == "self" else parameters
