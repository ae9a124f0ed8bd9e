"""What a field of settings may hold, by its annotation and its bounds: in Python, in files, on command lines."""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union

__all__ = [
    "Bounds",
    "Budget",
    "Count",
    "NonNegative",
    "NonNegativeInt",
    "Positive",
    "Share",
    "check_fields",
    "check_types",
    "fits",
    "has_default",
    "parts",
    "setting",
]

# The plain kinds: what Python takes for one, and its name where settings are code and where they are a file.
_KINDS: dict[type, tuple[Any, str, str]] = {
    bool: (bool, "True or False", "true or false"),
    int: (numbers.Integral, "a whole number", "a whole number"),
    float: (numbers.Real, "a number", "a number"),
    str: (str, "a string", "a string"),
    dict: (Mapping, "a mapping", "settings of its own"),
    list: ((list, tuple), "a list", "a list"),
    NoneType: (NoneType, "None", "null"),
}


_BYTES = re.compile(r"(\d+(?:\.\d+)?) ?(B|KiB|MiB|GiB|TiB)")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers that a field may hold; infinity only where `at_most` says so.

    Attributes:
        at_least: The smallest; None where `above` says what it must exceed.
        above: What it must exceed, or None.
        at_most: The largest; None: any that is finite.
    """

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None

    def hold(self, value: float) -> bool:
        """Whether a number lies within."""
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (value < math.inf if self.at_most is None else value <= self.at_most)
        )

    def words(self) -> str:
        """The bounds as the end of "must be a number ..."."""
        if self.at_most is not None and self.at_most < math.inf:
            return f" from {self.at_least} to {self.at_most}"
        return f" above {self.above}" if self.at_least is None else f" of at least {self.at_least}"


Count = Annotated[int, Bounds(at_least=1)]
NonNegativeInt = Annotated[int, Bounds(at_least=0)]
NonNegative = Annotated[float, Bounds(at_least=0)]
Positive = Annotated[float, Bounds(above=0)]
Share = Annotated[float, Bounds(at_least=0, at_most=1)]


def setting(default: Any, help: str) -> Any:
    """A field of a dataclass of settings that are documented one by one, in `--help` too."""
    return dataclasses.field(default=default, metadata={"help": help})


def check_fields(settings: Any, leave_out: Iterable[str] = ()) -> None:
    """Refuse values that a field's annotation rules out, before any is compared: NaN would pass, "false" be true.

    Args:
        settings: A dataclass; its annotations may have `Bounds`.
        leave_out: Fields that somebody else checks.

    Raises:
        ValueError: Name and value of the first such field, and what it must be.
    """
    skipped = set(leave_out)
    for name, hint in typing.get_type_hints(type(settings), include_extras=True).items():
        value = getattr(settings, name)
        if name not in skipped and not fits(value, hint):
            raise ValueError(f"{name} must be {_wanted(hint)}, got {value!r}")


def check_types(values: Mapping[str, Any], cls: type, source: str) -> None:
    """Refuse plain data that a dataclass would choke on later, without the name of the key.

    Only fields declared as plain data are looked at: numbers, strings, booleans, mappings, lists, null and literals,
    and unions of them. A whole number is a number; a boolean is neither.

    Args:
        values: By the name of the field.
        cls: The dataclass.
        source: Named in errors.

    Raises:
        ValueError: Key, value and what was expected.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    for name, value in values.items():
        if name in hints and not fits(value, hints[name]):
            raise ValueError(f"{source}: {name} must be {_wanted(hints[name], in_file=True)}, got {value!r}")


def parts(hint: Any) -> tuple[Any, ...]:
    """The members of a union, nested ones too; an annotation that is none by itself."""
    if typing.get_origin(hint) in (Union, UnionType):
        return tuple(part for argument in typing.get_args(hint) for part in parts(argument))
    return (hint,)


def has_default(settings: Any, name: str) -> bool:
    """Whether a field of a dataclass holds what it holds where nobody says anything."""
    return bool(getattr(settings, name) == settings.__dataclass_fields__[name].default)


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of an annotation's kind and within its bounds; one that is no plain kind takes all.

    NaN is no number: it passes every comparison with a bound.
    """
    for part in parts(hint):
        if typing.get_origin(part) is Literal:
            if value in typing.get_args(part):
                return True
            continue
        plain, bounds = _plain(part)
        if plain not in _KINDS:
            return True  # an enumeration, a class: whoever reads it knows better
        if isinstance(value, bool):
            if plain is bool:
                return True
        elif isinstance(value, _KINDS[plain][0]) and value == value:
            return bounds is None or bounds.hold(value)
    return False


def _wanted(hint: Any, *, in_file: bool = False) -> str:
    return " or ".join(dict.fromkeys(_words(part, in_file) for part in parts(hint)))


def _words(part: Any, in_file: bool) -> str:
    if typing.get_origin(part) is Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(part))
    plain, bounds = _plain(part)
    _, in_code, on_file = _KINDS[plain]
    return (on_file if in_file else in_code) + (bounds.words() if bounds is not None else "")


def _plain(part: Any) -> tuple[Any, Bounds | None]:
    """The class of an annotation, and the bounds that it has."""
    if typing.get_origin(part) is Annotated:
        inner, *extras = typing.get_args(part)
        return _plain(inner)[0], next((extra for extra in extras if isinstance(extra, Bounds)), None)
    plain = typing.get_origin(part) or part
    return (dict if plain is Mapping else plain), None


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be computed, or kept, at once.

    Attributes:
        tokens: So many tokens; None where the budget is one of memory.
        memory: So many bytes; None where it is one of tokens, or a share of what is free.
    """

    tokens: int | None = None
    memory: int | None = None

    @classmethod
    def read(cls, name: str, value: int | str) -> Budget:
        """Read a setting: a number of tokens, a size such as "12GiB", or "auto".

        Args:
            name: Of the setting.
            value: Its value.

        Raises:
            ValueError: It is none of these.

        Example:
            >>> Budget.read("micro_batch_tokens", "1.5GiB").memory
            1610612736
        """
        if value == "auto":
            return cls()
        if isinstance(value, int):
            return cls(tokens=value)
        size = _BYTES.fullmatch(value)
        if size is None or float(size[1]) == 0:
            raise ValueError(f"{name} must be a number of tokens, a size such as '12GiB', or 'auto', got {value!r}")
        return cls(memory=int(float(size[1]) * 1024 ** _UNITS.index(size[2])))

    def in_tokens(self, bytes_a_token: float, free: float) -> int:
        """The most tokens, at least one.

        Args:
            bytes_a_token: Memory that one takes.
            free: Bytes for a budget that names no size.
        """
        if self.tokens is not None:
            return self.tokens
        return max(int((free if self.memory is None else self.memory) / max(bytes_a_token, 1.0)), 1)
