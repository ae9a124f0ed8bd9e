"""Reading a row of a data file field by field, with errors that say where and what."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from agent_r1_envs.errors import DataError
from agent_r1_envs.text import echo


def found(value: Any) -> str:
    """Describe a value that was not expected, briefly."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"the string {echo(value)[:60]!r}"
    if isinstance(value, bool | int | float):
        return f"the {type(value).__name__} {value!r}"
    size = f" of {len(value)}" if isinstance(value, list | tuple | Mapping) else ""
    return f"a {'dict' if isinstance(value, Mapping) else type(value).__name__}{size}"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file, and the place that errors name.

    Attributes:
        path: The file.
        number: Position of the row in the file, from 0; for JSONL the number of the line, from 1.
        values: Its fields.
        unit: ``row`` or ``line``.
        prefix: Path to nested fields, for example ``context[3].``.
    """

    path: Path
    number: int
    values: Mapping[str, Any]
    unit: str = "row"
    prefix: str = ""

    def fail(self, field: str, expected: str, value: Any) -> NoReturn:
        """Raise the error of a field that holds ``value``."""
        self.complain(field, f"expected {expected}, found {found(value)}")

    def complain(self, field: str, problem: str) -> NoReturn:
        """Raise an error about a field in other words."""
        raise DataError(f"{self.path}, {self.unit} {self.number}, field {self.prefix}{field}: {problem}")

    def get(self, field: str, expected: str) -> Any:
        """Return a field that has to be there."""
        if field not in self.values:
            has = ", ".join(sorted(map(str, self.values))[:12]) or "nothing"
            self.complain(field, f"expected {expected}, found no such field (the row has: {has})")
        return self.values[field]

    def text(self, field: str, *, blank: bool = False) -> str:
        """Return a string; ``blank`` tells whether it may be empty or white space."""
        value = self.get(field, "a string")
        if not isinstance(value, str):
            self.fail(field, "a string", value)
        if not blank and not value.strip():
            self.fail(field, "a string that is not blank", value)
        return value

    def optional_text(self, field: str) -> str:
        """Return a string, empty if the field is absent or null."""
        return "" if self.values.get(field) is None else self.text(field, blank=True)

    def identity(self, field: str) -> str:
        """Return an id, which some files have as a number, as a string."""
        value = self.get(field, "an id")
        if isinstance(value, float) and value.is_integer():  # what a column of numbers with a gap holds
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            self.fail(field, "an id (string or integer)", value)
        return str(value)

    def integer(self, field: str) -> int:
        """Return an integer of at least 0."""
        value = self.get(field, "an integer")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.fail(field, "an integer of at least 0", value)
        return value

    def boolean(self, field: str) -> bool:
        """Return a truth value."""
        value = self.get(field, "true or false")
        if not isinstance(value, bool):
            self.fail(field, "true or false", value)
        return value

    def items(self, field: str, of: str) -> list[Any]:
        """Return a list; ``of`` says what it should hold."""
        value = self.get(field, f"a list of {of}")
        if not isinstance(value, list):
            self.fail(field, f"a list of {of}", value)
        return value

    def strings(self, field: str) -> list[str]:
        """Return a list of strings."""
        return check_strings(self, field, self.items(field, "strings"))

    def decoded(self, field: str, expected: str) -> Any:
        """Return a field that may be JSON in a string, as in tables whose columns cannot hold lists of mixed types."""
        value = self.get(field, expected)
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            try:
                return json.loads(value)
            except (ValueError, RecursionError) as error:
                self.complain(field, f"expected JSON, found bad JSON: {error}")
        return value

    def nested(self, field: str, value: Any) -> "Row":
        """Return the row of an object that lies inside this one at ``field``."""
        if not isinstance(value, Mapping):
            self.fail(field, "an object", value)
        return Row(self.path, self.number, value, self.unit, f"{self.prefix}{field}.")


def check_strings(row: Row, field: str, value: Any) -> list[str]:
    """Return ``value`` if it is a list of strings, else raise the error of ``field``."""
    if not isinstance(value, list):
        row.fail(field, "a list of strings", value)
    for position, item in enumerate(value):
        if not isinstance(item, str):
            row.fail(f"{field}[{position}]", "a string", item)
    return value
