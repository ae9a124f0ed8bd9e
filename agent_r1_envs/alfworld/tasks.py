"""The tasks of a split: handles that know how to get their game, so that a panel of thousands is ready at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agent_r1_envs.alfworld.generator import Difficulty, generate_game
from agent_r1_envs.alfworld.records import Record
from agent_r1_envs.alfworld.store import Row, Store

__all__ = ["GeneratedTask", "HouseholdTask", "StoredTask"]


class HouseholdTask(Protocol):
    """A task of a panel."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def task_type(self) -> str:
        """Its task type."""

    def load(self) -> Record:
        """Return its game."""


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A game out of an index of official games."""

    store: Store
    row: Row

    @property
    def id(self) -> str:
        """Path of its folder in the split."""
        return self.row.id

    @property
    def task_type(self) -> str:
        """Its task type."""
        return self.row.task_type

    def load(self) -> Record:
        """Read the game."""
        return self.store.read(self.row)


@dataclass(frozen=True, slots=True)
class GeneratedTask:
    """A game that is made when it is wanted, which costs less than reading it from a file.

    Attributes:
        split: As in ``generate_game``, like the rest.
        number: Which game.
        seed: The seed of the panel.
        difficulty: How much there is in the household.
        task_type: Its task type.
    """

    split: str
    number: int
    seed: int
    difficulty: Difficulty
    task_type: str

    @property
    def id(self) -> str:
        """Split, seed, number and task type."""
        return f"{self.split}-{self.seed}-{self.number:05d}-{self.task_type}"

    def load(self) -> Record:
        """Make the game."""
        game = generate_game(
            self.split, self.number, seed=self.seed, difficulty=self.difficulty, task_type=self.task_type
        )
        return Record(game)
