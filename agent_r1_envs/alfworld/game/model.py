"""What a game is made of, and the state that playing it changes.

Objects, receptacles and places are numbers: positions in the game's tuples, which are in the order of the ids in the
game file. That is the order in which TextWorld lists things, so a loop over a set of them lists them as it does. A set
of such numbers is an int with their bits set: compact, immutable, and compared in one instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

__all__ = ["NOTHING", "TASK_TYPES", "Game", "Goal", "State", "bit_set", "members"]

TASK_TYPES: Final = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The six supported task types, in the benchmark's order (its numbers are 1 to 6)."""

NOTHING: Final = -1
"""The number of no object."""


class State(NamedTuple):
    """Everything that an action can change; sets of objects and receptacles are bits (see `bit_set`).

    Attributes:
        place: Where the agent is.
        held: The object in its hand, or ``NOTHING``.
        opened: Receptacles that are open.
        contents: For each receptacle, the objects in or on it. An object can be in several, such as a drawer and its
            dresser.
        ground: For each place, the objects that are there (``objectAtLocation``).
        taken: For each receptacle, the objects that were taken from it and not put back. TextWorld shows such an object
            beside the receptacle when it is at the same place in another one.
        clean: Objects that were cleaned.
        hot: Objects that are hot.
        cool: Objects that are cool.
        lit: Objects that were turned on; nothing turns them off again.
        sliced: Objects that were sliced.
    """

    place: int
    held: int
    opened: int
    contents: tuple[int, ...]
    ground: tuple[int, ...]
    taken: tuple[int, ...]
    clean: int = 0
    hot: int = 0
    cool: int = 0
    lit: int = 0
    sliced: int = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> State:
        return self  # it is immutable all through


@dataclass(frozen=True, slots=True)
class Goal:
    """What ends a game.

    Attributes:
        task_type: One of ``TASK_TYPES``.
        target: Kind of the object that is asked for, such as ``"apple"``.
        targets: The objects that count.
        receptacle: Kind of the receptacle to put it in, ``""`` where the task is to look at it.
        receptacles: The receptacles that count.
        lamp: Kind of the lamp to look at it under, ``""`` in other tasks.
        lamps: The lamps that count.
    """

    task_type: str
    target: str
    targets: int
    receptacle: str = ""
    receptacles: int = 0
    lamp: str = ""
    lamps: int = 0


@dataclass(frozen=True, slots=True)
class Game:
    """One game: everything that stays as it is, and the state to begin with.

    Attributes:
        dialect: Name of the dialect that the game's own texts are in.
        task: The task in words, as the game tells it.
        goal: What ends the game.
        places: Name of each place.
        receptacles: Name of each receptacle.
        sites: Place of each receptacle.
        openable: Receptacles that can be opened; the others are always open.
        accepts: For each receptacle, the objects that may be put there.
        washers: Receptacles that an object can be cleaned with.
        heaters: Receptacles that an object can be heated with.
        coolers: Receptacles that an object can be cooled with.
        objects: Name of each object.
        pickupable: Objects that can be taken.
        toggleable: Objects that can be turned on.
        cleanable: Objects that can be cleaned.
        heatable: Objects that can be heated.
        coolable: Objects that can be cooled.
        sliceable: Objects that can be sliced.
        knives: Objects that can be sliced with.
        vessels: Objects that can hold others.
        inside: For each vessel that holds something: the vessel and what is in it.
        start: The state at the beginning.
    """

    dialect: str
    task: str
    goal: Goal
    places: tuple[str, ...]
    receptacles: tuple[str, ...]
    sites: tuple[int, ...]
    openable: int
    accepts: tuple[int, ...]
    washers: int
    heaters: int
    coolers: int
    objects: tuple[str, ...]
    pickupable: int
    toggleable: int
    cleanable: int
    heatable: int
    coolable: int
    sliceable: int
    knives: int
    vessels: int
    inside: tuple[tuple[int, int], ...]
    start: State


def bit_set(numbers: Iterable[int]) -> int:
    """Return the int whose bits are set at ``numbers``."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def members(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, in ascending order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
