"""Builds a household: receptacles at their places and objects in them, with numbers as TextWorld would give them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import isqrt
from random import Random
from typing import Final, TypeVar

from agent_r1_envs.alfworld.bits import bit_set
from agent_r1_envs.alfworld.dialects import DialectName
from agent_r1_envs.alfworld.model import NOTHING, Game, Goal, State
from agent_r1_envs.alfworld.vocabulary import (
    ACCEPTS,
    CLEANABLE,
    COOLABLE,
    HEATABLE,
    KNIVES,
    LAMPS,
    OBJECTS,
    OPENABLE,
    RECEPTACLES,
    SCENES,
    SLICEABLE,
    VESSELS,
    base_of,
)

__all__ = ["Household", "below", "between", "pick"]

T = TypeVar("T")

DIALECT: Final[DialectName] = "2.1.3"
"""The dialect of generated games; the env can tell them in the other."""

# As in the official games, one receptacle in eleven stands where another one does.
_SHARED: Final = 1 / 11

# What sorts kinds as the ids of their things.
_SORT_KEYS: Final = {kind: f"{base_of(kind)}_bar_".lower() for kind in (*OBJECTS, *RECEPTACLES)}

_ROOTS: Final = tuple(isqrt(100 * number) for number in range(32))


def below(rng: Random, count: int) -> int:
    """Return a number from 0 to ``count - 1``; only ``rng.random()`` is the same in every version of Python."""
    return int(rng.random() * count)


def between(rng: Random, bounds: tuple[int, int]) -> int:
    """Return a number within inclusive bounds."""
    return bounds[0] + below(rng, bounds[1] - bounds[0] + 1)


def pick(rng: Random, items: Sequence[T]) -> T:
    """Return one of the items."""
    return items[below(rng, len(items))]


@dataclass(slots=True)
class Household:
    """A household that is being furnished.

    Attributes:
        scene: Its scene.
        receptacles: The kind of each receptacle.
        objects: Kind and receptacle (a position in ``receptacles``) of each object.
    """

    scene: str
    receptacles: list[str] = field(default_factory=list)
    objects: list[tuple[str, int]] = field(default_factory=list)

    def build(self, rng: Random, needed: Iterable[str], count: int) -> None:
        """Set up ``count`` receptacles, or as many as the scene has, the needed kinds among them."""
        most = SCENES[self.scene]
        self.receptacles = list(needed)
        kinds = list(most)
        free = [most[kind] - self.receptacles.count(kind) for kind in kinds]
        # In proportion to the square root of how many are left: others come before there are many of one kind.
        weights = [_ROOTS[number] for number in free]
        for _ in range(min(count - len(self.receptacles), sum(free))):
            shares = list(accumulate(weights))
            index = bisect_right(shares, below(rng, shares[-1]))
            self.receptacles.append(kinds[index])
            free[index] -= 1
            weights[index] = _ROOTS[free[index]]

    def sites_for(self, kind: str, without: str = "") -> list[int]:
        """Return the receptacles that accept a kind of object, except those of the kind ``without``."""
        return [
            number
            for number, receptacle in enumerate(self.receptacles)
            if receptacle != without and kind in ACCEPTS[receptacle]
        ]

    def put_anywhere(self, rng: Random, kinds: Sequence[str], count: int) -> None:
        """Put ``count`` objects of random kinds where they belong; what belongs nowhere is left out."""
        sites: dict[str, list[int]] = {}
        for _ in range(count if kinds else 0):
            kind = pick(rng, kinds)
            if kind not in sites:
                sites[kind] = self.sites_for(kind)
            self.put(rng, kind, sites[kind])

    def put(self, rng: Random, kind: str, sites: Sequence[int]) -> None:
        """Put an object into one of some receptacles; nowhere if there is none."""
        if sites:
            self.objects.append((kind, pick(rng, sites)))

    def game(self, rng: Random, task: str, goal: Goal) -> Game:
        """Return the game; ``goal`` names kinds, its sets are filled in here."""
        order = sorted(range(len(self.receptacles)), key=lambda number: _SORT_KEYS[self.receptacles[number]])
        position = {number: place for place, number in enumerate(order)}
        receptacles = [self.receptacles[number] for number in order]
        things = sorted(((kind, position[site]) for kind, site in self.objects), key=lambda item: _SORT_KEYS[item[0]])
        kinds = [kind for kind, _ in things]
        sites, places = _sites(rng, len(receptacles))
        contents, ground = [0] * len(receptacles), [0] * places
        for number, (_, receptacle) in enumerate(things):
            contents[receptacle] |= 1 << number
            ground[sites[receptacle]] |= 1 << number
        by_kind: dict[str, int] = {}
        for number, kind in enumerate(kinds):
            by_kind[kind] = by_kind.get(kind, 0) | 1 << number

        present = by_kind.keys()

        def of(wanted: frozenset[str]) -> int:
            return sum(map(by_kind.__getitem__, wanted & present))

        def where(wanted: Container[str]) -> int:
            return bit_set([number for number, kind in enumerate(receptacles) if kind in wanted])

        lamps = frozenset(LAMPS.values())
        accepts = {kind: of(ACCEPTS[kind]) for kind in set(receptacles)}
        return Game(
            dialect=DIALECT,
            task=task,
            goal=Goal(
                goal.task_type,
                goal.target.lower(),
                by_kind[goal.target],
                goal.receptacle.lower(),
                where((goal.receptacle,)),
                goal.lamp.lower(),
                by_kind.get(goal.lamp, 0),
            ),
            places=tuple(f"loc {places - number}" for number in range(places)),
            receptacles=tuple(_names(receptacles)),
            sites=tuple(sites),
            openable=where(OPENABLE),
            accepts=tuple(accepts[kind] for kind in receptacles),
            washers=where(("SinkBasin",)),
            heaters=where(("Microwave",)),
            coolers=where(("Fridge",)),
            objects=tuple(_names(kinds)),
            pickupable=of(frozenset(kinds) - lamps),
            toggleable=of(lamps),
            cleanable=of(CLEANABLE),
            heatable=of(HEATABLE),
            coolable=of(COOLABLE),
            sliceable=of(SLICEABLE),
            knives=of(KNIVES),
            vessels=of(VESSELS),
            inside=(),
            start=State(places - 1, NOTHING, 0, tuple(contents), tuple(ground), (0,) * len(receptacles)),
        )


def _sites(rng: Random, receptacles: int) -> tuple[list[int], int]:
    """Return a place for each receptacle and how many places there are; nothing is at the last one, the start."""
    sites: list[int] = []
    for number in range(receptacles):
        shared = number > 0 and rng.random() < _SHARED
        sites.append(sites[number - 1] if shared else max(sites, default=-1) + 1)
    count = max(sites) + 1
    shuffled = list(range(count))
    for last in range(count - 1, 0, -1):
        other = below(rng, last + 1)
        shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
    return [shuffled[site] for site in sites], count + 1


def _names(kinds: Sequence[str]) -> list[str]:
    """Number the things of sorted kinds downwards."""
    left: dict[str, int] = {}
    for kind in kinds:
        left[kind] = left.get(kind, 0) + 1
    names = []
    for kind in kinds:
        names.append(f"{kind.lower()} {left[kind]}")
        left[kind] -= 1
    return names
