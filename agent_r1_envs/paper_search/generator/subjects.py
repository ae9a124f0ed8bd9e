"""What the papers are about: tasks, methods and data sets."""

from __future__ import annotations

from dataclasses import dataclass

from agent_r1_envs.paper_search.generator import lexicon as words


@dataclass(frozen=True, slots=True)
class Task:
    """An operation on an object, such as river level forecasting.

    Attributes:
        number: Its number.
        object: Number of its object, which decides the split.
        field: Its field.
        wordings: What it is called; the first one is used in queries.
    """

    number: int
    object: int
    field: str
    wordings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """A method.

    Attributes:
        number: Its number.
        wordings: Its full name, which is used in queries, and its coined one.
    """

    number: int
    wordings: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set of one task."""

    number: int
    task: int
    name: str


def all_tasks() -> list[Task]:
    """Return every task, in a fixed order."""
    per_field = len(words.OBJECTS) // len(words.FIELDS)
    return [
        Task(
            number=i * len(words.OPERATIONS) + j,
            object=i,
            field=words.FIELDS[i // per_field],
            wordings=tuple(f"{thing} {operation}" for operation in operations for thing in things),
        )
        for i, things in enumerate(words.OBJECTS)
        for j, operations in enumerate(words.OPERATIONS)
    ]


def all_methods() -> list[Method]:
    """Return every method, in a fixed order."""
    first, second = words.COINED
    return [
        Method(i * len(words.NOUNS) + j, (f"{adjective} {noun}", first[i] + second[j]))
        for i, adjective in enumerate(words.ADJECTIVES)
        for j, noun in enumerate(words.NOUNS)
    ]


def all_datasets(tasks: list[Task]) -> list[Dataset]:
    """Return two data sets a task, in a fixed order."""
    names = [a + b for b in words.DATA_SECOND for a in words.DATA_FIRST]
    return [Dataset(number, number // 2, names[number]) for number in range(2 * len(tasks))]
