"""Names in place of objects: what ``module:name`` names, where the names of a package live, and which name was meant.

Data and settings name what they cannot hold, and a package names what it does not import before it is used. Nothing
heavy is imported here: the packages' own import goes through this file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeGuard

__all__ = ["did_you_mean", "import_on_use", "is_name", "load_factory", "load_name", "nearest"]

_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*(\.\w+)*")


def is_name(value: object) -> TypeGuard[str]:
    """Return whether a value has the form ``"module:name"``."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def load_name(name: str) -> Any:
    """Return what ``"module:name"`` names.

    Raises:
        ValueError: The text has another form.
        ImportError: There is no such module, or nothing of this name in it.
    """
    if not is_name(name):
        raise ValueError(f"expected 'module:name', got {name!r}")
    module, _, path = name.partition(":")
    value: Any = import_module(module)
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise ImportError(f"{name!r}: module {module!r} has no {path!r}") from None
    return value


def load_factory(name: str, argument: str, forms: str) -> Callable[..., Any]:
    """Return the factory that an argument names.

    Args:
        name: ``"module:factory"``.
        argument: Whose value it is, in the words of errors.
        forms: What the argument may be, in the words of errors.

    Raises:
        ValueError: The name has another form, or names nothing.
    """
    if not is_name(name):
        raise ValueError(f"unknown {argument} {name!r}; expected {forms}")
    try:
        return load_name(name)
    except ImportError as error:
        raise ValueError(f"cannot load {argument} {name!r}: {error}") from error


def import_on_use(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package, which imports its public names where they are first used (PEP 562).

    A type checker does not see through it: the package imports the same names under ``TYPE_CHECKING``.

    Args:
        package: Its ``__name__``.
        homes: The modules, as named within the package, to the names that they define.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get


def nearest(name: str, known: Iterable[str] | Mapping[str, str], *, most: int = 3) -> list[str]:
    """Return the known names that are most like a mistaken one, the nearest first; case and punctuation do not count.

    Args:
        name: What was said.
        known: What there is; of a mapping the values are compared and the keys returned.
        most: How many are returned.

    >>> nearest("oder", ["count", "order"])
    ['order']
    """
    from rapidfuzz import fuzz, process, utils  # only a mistake needs it

    choices = known if isinstance(known, Mapping) else {other: other for other in known}
    plain = utils.default_process
    found = process.extract(name, choices, scorer=fuzz.ratio, processor=plain, limit=most, score_cutoff=_LIKENESS)
    return [other for _, _, other in found]


def did_you_mean(
    name: str, known: Iterable[str], *, otherwise: str = "", before: str = "; ", form: Callable[[str], str] = str
) -> str:
    """Return the end of a message about an unknown name.

    Args:
        name: What was said.
        known: What there is.
        otherwise: What the message says where nothing is near.
        before: Stands before either.
        form: How a name is written.

    >>> did_you_mean("oder", ["count", "order"], form=repr)
    "; did you mean 'order'?"
    >>> did_you_mean("colour", ["count", "order"])
    ''
    """
    near = nearest(name, known)
    said = f"did you mean {' or '.join(map(form, near))}?" if near else otherwise
    return f"{before}{said}" if said else ""


_LIKENESS: Final = 65
"""Of 100: twice the letters that two names share in order, to the letters of both."""
