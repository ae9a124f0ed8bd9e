"""Routes: the visits that a plan is made of, what they cost, and the commands that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent_r1_envs.alfworld.game.engine import Action
from agent_r1_envs.alfworld.game.model import Game, State

__all__ = ["Knowledge", "Visit", "actions_of", "cost_of", "full_knowledge"]


class Visit(NamedTuple):
    """One thing to do at a receptacle.

    Attributes:
        verb: ``take``, ``put``, ``clean``, ``heat``, ``cool``, ``use``, or ``stay`` for merely being there.
        thing: The object.
        receptacle: Where.
    """

    verb: str
    thing: int
    receptacle: int


class Knowledge(NamedTuple):
    """What a plan may rely on; the rest of the state is what the agent itself has done.

    Attributes:
        sites: Place of each receptacle; a number of its own where it is not known to share its place with another.
        openable: Receptacles that are known to have a door.
        contents: The objects known to be in each receptacle.
    """

    sites: tuple[int, ...]
    openable: int
    contents: tuple[int, ...]


def full_knowledge(game: Game, state: State) -> Knowledge:
    """Return what somebody who sees everything knows."""
    return Knowledge(game.sites, game.openable, state.contents)


def cost_of(route: Iterable[Visit], knowledge: Knowledge, place: int, opened: int) -> int:
    """Return how many commands a route takes from ``place``: it goes and opens only where it has to."""
    cost = 0
    sites, shut = knowledge.sites, knowledge.openable & ~opened
    for verb, _, receptacle in route:
        if sites[receptacle] != place:
            place = sites[receptacle]
            cost += 1
        if verb == "stay":
            continue
        if shut >> receptacle & 1 and verb in _INSIDE:
            shut &= ~(1 << receptacle)
            cost += 1
        cost += 1
    return cost


def actions_of(route: Sequence[Visit], knowledge: Knowledge, place: int, opened: int) -> list[Action]:
    """Return the actions of a route."""
    actions = []
    sites, shut = knowledge.sites, knowledge.openable & ~opened
    for verb, thing, receptacle in route:
        if sites[receptacle] != place:
            place = sites[receptacle]
            actions.append(Action("go", receptacle=receptacle))
        if verb == "stay":
            continue
        if shut >> receptacle & 1 and verb in _INSIDE:
            shut &= ~(1 << receptacle)
            actions.append(Action("open", receptacle=receptacle))
        actions.append(Action(verb, thing, receptacle))
    return actions


_INSIDE = frozenset({"take", "put"})
