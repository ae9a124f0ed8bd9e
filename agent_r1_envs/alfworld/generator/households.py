"""Builds a household: receptacles at their places and objects in them, with numbers as TextWorld would give them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import isqrt
from random import Random
from typing import Final, TypeVar

from agent_r1_envs.alfworld.game.dialects import DialectName
from agent_r1_envs.alfworld.game.model import NOTHING, Game, Goal, State
from agent_r1_envs.alfworld.generator.vocabulary import (
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
        receptacles: The kind of each receptacle, in the order of their ids.
        objects: Kind and receptacle (a position in ``receptacles``) of each object.
    """

    scene: str
    receptacles: list[str] = field(default_factory=list)
    objects: list[tuple[str, int]] = field(default_factory=list)
    _sites: dict[str, list[int]] = field(default_factory=dict)

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
        self.receptacles.sort(key=_SORT_KEYS.__getitem__)

    def sites_for(self, kind: str, without: str = "") -> list[int]:
        """Return the receptacles that accept a kind of object, except those of the kind ``without``."""
        return [
            number
            for number, receptacle in enumerate(self.receptacles)
            if receptacle != without and kind in ACCEPTS[receptacle]
        ]

    def put_anywhere(self, rng: Random, kinds: Sequence[str], count: int) -> None:
        """Put ``count`` objects of random kinds where they belong; what belongs nowhere is left out."""
        for _ in range(count if kinds else 0):
            kind = pick(rng, kinds)
            sites = self._sites.get(kind)
            if sites is None:
                sites = self._sites[kind] = self.sites_for(kind)
            self.put(rng, kind, sites)

    def put(self, rng: Random, kind: str, sites: Sequence[int]) -> None:
        """Put an object into one of some receptacles; nowhere if there is none."""
        if sites:
            self.objects.append((kind, pick(rng, sites)))

    def game(self, rng: Random, task: str, goal: Goal) -> Game:
        """Return the game; ``goal`` names kinds, its sets are filled in here."""
        receptacles = self.receptacles
        things = sorted(self.objects, key=lambda item: _SORT_KEYS[item[0]])
        kinds = [kind for kind, _ in things]
        sites, places = _sites(rng, len(receptacles))
        contents, ground = [0] * len(receptacles), [0] * places
        for number, (_, receptacle) in enumerate(things):
            contents[receptacle] |= 1 << number
            ground[sites[receptacle]] |= 1 << number
        of, where = _by_kind(kinds), _by_kind(receptacles)
        accepts = {kind: _all(of, ACCEPTS[kind]) for kind in where}
        lamps = _all(of, frozenset(LAMPS.values()))
        return Game(
            dialect=DIALECT,
            task=task,
            goal=Goal(
                goal.task_type,
                goal.target.lower(),
                of[goal.target],
                goal.receptacle.lower(),
                where.get(goal.receptacle, 0),
                goal.lamp.lower(),
                of.get(goal.lamp, 0),
            ),
            places=tuple(f"loc {places - number}" for number in range(places)),
            receptacles=tuple(_names(receptacles)),
            sites=tuple(sites),
            openable=_all(where, OPENABLE),
            accepts=tuple(accepts[kind] for kind in receptacles),
            washers=where.get("SinkBasin", 0),
            heaters=where.get("Microwave", 0),
            coolers=where.get("Fridge", 0),
            objects=tuple(_names(kinds)),
            pickupable=((1 << len(kinds)) - 1) & ~lamps,
            toggleable=lamps,
            cleanable=_all(of, CLEANABLE),
            heatable=_all(of, HEATABLE),
            coolable=_all(of, COOLABLE),
            sliceable=_all(of, SLICEABLE),
            knives=_all(of, KNIVES),
            vessels=_all(of, VESSELS),
            inside=(),
            start=State(places - 1, NOTHING, 0, tuple(contents), tuple(ground), (0,) * len(receptacles)),
        )


def _sites(rng: Random, receptacles: int) -> tuple[list[int], int]:
    """Return a place for each receptacle and how many places there are; nothing is at the last one, the start."""
    sites: list[int] = []
    count = 0
    for number in range(receptacles):
        if number > 0 and rng.random() < _SHARED:
            sites.append(sites[-1])
        else:
            sites.append(count)
            count += 1
    shuffled = list(range(count))
    for last in range(count - 1, 0, -1):
        other = below(rng, last + 1)
        shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
    return [shuffled[site] for site in sites], count + 1


def _names(kinds: Sequence[str]) -> list[str]:
    """Number the things of sorted kinds downwards."""
    names, last, number = [], "", 0
    for kind in reversed(kinds):
        number = number + 1 if kind == last else 1
        last = kind
        names.append(f"{kind.lower()} {number}")
    return names[::-1]


def _by_kind(kinds: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the things of each kind, as bits."""
    found: dict[str, int] = {}
    for number, kind in enumerate(kinds):
        found[kind] = found.get(kind, 0) | 1 << number
    return found


def _all(found: dict[str, int], kinds: frozenset[str]) -> int:
    return sum([bits for kind, bits in found.items() if kind in kinds])
