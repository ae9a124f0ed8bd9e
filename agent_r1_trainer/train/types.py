"""Whether a value of a file of settings has the type of its key."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union

__all__ = ["check_types"]

_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    dict: "settings of its own",
    list: "a list",
    NoneType: "null",
}


def check_types(values: Mapping[str, Any], cls: type, source: str) -> None:
    """Refuse values that a dataclass would choke on later, without the name of the key.

    Only fields declared as plain data are looked at: numbers, strings, booleans, mappings, lists, null and literals,
    and unions of them. A whole number is a number; a boolean is neither.

    Args:
        values: By the name of the field.
        cls: The dataclass.
        source: Named in errors.

    Raises:
        ValueError: Key, value and what was expected.
    """
    hints = typing.get_type_hints(cls)
    for name, value in values.items():
        if name in hints and not _fits(value, hints[name]):
            wanted = " or ".join(dict.fromkeys(_words(part) for part in _parts(hints[name])))
            raise ValueError(f"{source}: {name} must be {wanted}, got {value!r}")


def _parts(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (Union, UnionType):
        return tuple(part for argument in typing.get_args(hint) for part in _parts(argument))
    return (hint,)


def _fits(value: Any, hint: Any) -> bool:
    for part in _parts(hint):
        if typing.get_origin(part) is Literal:
            if value in typing.get_args(part):
                return True
            continue
        plain = _plain(part)
        if plain not in _NAMES:
            return True  # an enumeration, a class: whoever reads it knows better
        if isinstance(value, bool):
            if plain is bool:
                return True
        elif isinstance(value, plain) or (plain is float and isinstance(value, int)):
            return True
    return False


def _words(part: Any) -> str:
    if typing.get_origin(part) is Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(part))
    return _NAMES[_plain(part)]


def _plain(part: Any) -> Any:
    plain = typing.get_origin(part) or part
    return dict if plain is Mapping else plain
