"""Shortest plans, from any state of any game.

A plan only ever needs a few visits, in a fixed order: put down what is in the way, take an object, treat it, put it in
place (twice where two are wanted), or carry it to a lamp and switch that on. Which receptacles are visited is open, and
going and opening cost extra where they are not spared by being there or having opened before. So all choices of visits
are compared, alike ones once, and the cheapest is a shortest plan: no other order saves anything, because going
somewhere or opening something early costs the same as doing it when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, permutations
from typing import Final, NamedTuple

from agent_r1_envs.alfworld.expert.routes import Knowledge, Visit, actions_of, cost_of, full_knowledge
from agent_r1_envs.alfworld.game.engine import Action
from agent_r1_envs.alfworld.game.model import NOTHING, Game, State, members
from agent_r1_envs.alfworld.game.scoring import PROCESS, is_won, treated

__all__ = ["shortest_plan"]

Route = tuple[Visit, ...]

# Real games have some hundreds of routes; the bound is for game files that are made to be slow.
_MOST_ROUTES: Final = 50_000


class _Source(NamedTuple):
    thing: int
    receptacle: int  # NOTHING: in the hand


def shortest_plan(game: Game, state: State, knowledge: Knowledge | None = None) -> list[Action] | None:
    """Return the actions of a shortest plan that wins from ``state``.

    Args:
        game: The game.
        state: Where to begin.
        knowledge: What the plan may rely on; None for everything there is. With less, the plan holds as far as that
            goes: a receptacle that is not known to have a door may be closed.

    Returns:
        The actions, none of them where the game is won; None where no plan is known. Always the same for the same
        arguments.
    """
    if is_won(game, state):
        return []
    known = full_knowledge(game, state) if knowledge is None else knowledge
    best: Route | None = None
    least = 0
    for route in islice(_Planner(game, state, known).routes(), _MOST_ROUTES):
        cost = cost_of(route, known, state.place, state.opened)
        if best is None or cost < least:
            best, least = route, cost
    return None if best is None else actions_of(best, known, state.place, state.opened)


class _Planner:
    """Lists the routes from one state."""

    def __init__(self, game: Game, state: State, known: Knowledge) -> None:
        self.game, self.state, self.known = game, state, known
        self.verb = PROCESS.get(game.goal.task_type)
        tools = {"clean": game.washers, "heat": game.heaters, "cool": game.coolers}
        self.tools = list(members(tools[self.verb])) if self.verb else []
        self.finished = treated(game, state)
        self.shut = known.openable & ~state.opened
        self.goals = [r for r in members(game.goal.receptacles) if game.accepts[r] & game.goal.targets]

    def routes(self) -> Iterator[Route]:
        """Yield every route that may be a shortest one."""
        if self.game.goal.task_type == "look_at_obj_in_light":
            return self._to_light()
        if self.game.goal.task_type == "pick_two_obj_and_place":
            return self._two_in_place()
        return self._one_in_place()

    def _one_in_place(self) -> Iterator[Route]:
        for source in self._sources(self._places_of(self.goals) | self._places_of(self.tools)):
            taking = self._take(source)
            if self.finished >> source.thing & 1:
                ways: Iterable[Route] = ((),)
            else:
                assert self.verb is not None
                ways = [(Visit(self.verb, source.thing, tool),) for tool in self.tools]
            for way in ways:
                if way and self._is_in_place(source):  # listed there as well: treating it is enough
                    yield from self._clear_hands(source, (*taking, *way), ())
                    continue
                for goal in self._distinct_goals([source]):
                    putting = Visit("put", source.thing, goal)
                    yield from self._clear_hands(source, (*taking, *way, putting), (goal,))

    def _two_in_place(self) -> Iterator[Route]:
        sources = list(self._sources(self._places_of(self.goals), alike=2))
        for goal in self._distinct_goals(sources):
            inside = self.known.contents[goal] & self.game.goal.targets
            usable = [source for source in sources if not inside >> source.thing & 1]
            for chosen in permutations(usable, 2 - inside.bit_count()):
                if len({source.thing for source in chosen}) < len(chosen):
                    continue
                if any(source.receptacle == NOTHING for source in chosen[1:]):
                    continue  # what is in the hand comes first
                route: Route = ()
                for source in chosen:
                    route = (*route, *self._take(source), Visit("put", source.thing, goal))
                others = (goal, *(source.receptacle for source in chosen[1:]))
                yield from self._clear_hands(chosen[0], route, others)

    def _to_light(self) -> Iterator[Route]:
        lamps = [
            (lamp, receptacle)
            for receptacle, contents in enumerate(self.known.contents)
            for lamp in members(contents & self.game.goal.lamps)
        ]
        places = self._places_of(receptacle for _, receptacle in lamps)
        for source in self._sources(places):
            for lamp, receptacle in lamps:
                verb = "stay" if self.state.lit >> lamp & 1 else "use"
                yield from self._clear_hands(source, (*self._take(source), Visit(verb, lamp, receptacle)), ())

    def _sources(self, places: set[int], alike: int = 1) -> Iterator[_Source]:
        """Yield the targets that can be had and where they are, ``alike`` of each sort.

        Args:
            places: The places that the rest of a route may visit, which makes a difference.
            alike: How many of a sort a route may need.
        """
        game, state = self.game, self.state
        if state.held != NOTHING and game.goal.targets >> state.held & 1 and self._can_be_finished(state.held):
            yield _Source(state.held, NOTHING)
        seen: dict[tuple[object, ...], int] = {}
        for receptacle, contents in enumerate(self.known.contents):
            place = self.known.sites[receptacle]
            for thing in members(contents & game.goal.targets & game.pickupable):
                source = _Source(thing, receptacle)
                special = place == state.place or place in places
                sort = (
                    (place, receptacle) if special or alike > 1 else None,
                    self.shut >> receptacle & 1,
                    self.finished >> thing & 1,
                    self._is_in_place(source),
                )
                if thing != state.held and self._can_be_finished(thing) and seen.get(sort, 0) < alike:
                    seen[sort] = seen.get(sort, 0) + 1
                    yield source

    def _can_be_finished(self, thing: int) -> bool:
        return bool(self.finished >> thing & 1) or bool(self.tools)

    def _is_in_place(self, source: _Source) -> bool:
        """Return whether an object is listed in a goal receptacle, apart from the one it would be taken from."""
        return any(self.known.contents[goal] >> source.thing & 1 for goal in self.goals if goal != source.receptacle)

    def _distinct_goals(self, sources: Iterable[_Source]) -> Iterator[int]:
        """Yield the goal receptacles, one of each sort."""
        places = self._places_of(source.receptacle for source in sources if source.receptacle != NOTHING)
        places |= self._places_of(self.tools)
        seen = set()
        for goal in self.goals:
            place = self.known.sites[goal]
            special = place == self.state.place or place in places
            inside = self.known.contents[goal] & self.game.goal.targets
            sort = (goal if special or inside else None, self.shut >> goal & 1, self._takes_held(goal))
            if sort not in seen:
                seen.add(sort)
                yield goal

    def _takes_held(self, receptacle: int) -> int:
        return 0 if self.state.held == NOTHING else self.game.accepts[receptacle] >> self.state.held & 1

    def _take(self, source: _Source) -> Route:
        return () if source.receptacle == NOTHING else (Visit("take", source.thing, source.receptacle),)

    def _clear_hands(self, source: _Source, route: Route, others: tuple[int, ...]) -> Iterator[Route]:
        """Yield a route, after putting down what is held and not wanted, wherever that may be cheapest."""
        held = self.state.held
        if held == NOTHING or source.receptacle == NOTHING:
            yield route
            return
        fitting = [receptacle for receptacle, accepted in enumerate(self.game.accepts) if accepted >> held & 1]
        near = {self.state.place, self.known.sites[source.receptacle]}
        where = {*others, source.receptacle}.intersection(fitting)
        for group in (
            *([r for r in fitting if self.known.sites[r] == place] for place in sorted(near)),
            fitting,
        ):
            if group:
                where.add(min(group, key=lambda receptacle: self.shut >> receptacle & 1))
        for receptacle in sorted(where):
            yield (Visit("put", held, receptacle), *route)

    def _places_of(self, receptacles: Iterable[int]) -> set[int]:
        return {self.known.sites[receptacle] for receptacle in receptacles}
