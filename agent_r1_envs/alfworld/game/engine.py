"""Plays a game: which commands there are in a state, and what each of them does."""

from __future__ import annotations

from typing import Final, NamedTuple

from agent_r1_envs.alfworld.game.dialects import DIALECTS
from agent_r1_envs.alfworld.game.model import NOTHING, Game, State, members
from agent_r1_envs.alfworld.game.texts import (
    describe_inventory,
    describe_object,
    describe_place,
    describe_receptacle,
    intro,
)

__all__ = ["Action", "Engine"]


class Action(NamedTuple):
    """What a command means.

    Attributes:
        verb: ``look``, ``inventory``, ``help``, ``go``, ``examine``, ``inspect`` (an object), ``open``, ``close``,
            ``take``, ``put``, ``use``, ``clean``, ``heat``, ``cool`` or ``slice``.
        thing: The object; of ``slice`` the one that is cut.
        receptacle: The receptacle; of ``slice`` the knife.
    """

    verb: str
    thing: int = NOTHING
    receptacle: int = NOTHING


_LOOK: Final = Action("look")
_INVENTORY: Final = Action("inventory")
_HELP: Final = Action("help")


class Engine:
    """The rules of one game. It holds no state: every method takes one.

    Args:
        game: The game.
        dialect: Name of the dialect to talk in; None for the game's own.
    """

    __slots__ = ("_going", "_here", "dialect", "game")

    def __init__(self, game: Game, dialect: str | None = None) -> None:
        self.game = game
        self.dialect = DIALECTS[dialect or game.dialect]
        self._here: dict[int, list[int]] = {}
        for receptacle, site in enumerate(game.sites):
            self._here.setdefault(site, []).append(receptacle)
        self._going = [
            (site, f"go to {name}", Action("go", receptacle=receptacle))
            for receptacle, (site, name) in enumerate(zip(game.sites, game.receptacles, strict=True))
        ]

    def begin(self, task: str | None = None) -> tuple[State, str]:
        """Return the first state and the first observation, which may tell the task in other words."""
        start = self.game.start
        return start, intro(self.game, start, self.game.task if task is None else task)

    def here(self, state: State) -> list[int]:
        """Return the receptacles at the agent's place."""
        return self._here.get(state.place, [])

    def commands(self, state: State) -> dict[str, Action]:
        """Return every command that TextWorld would accept, in no particular order.

        Facts that surprise: one cannot go to any receptacle at the place where one is; of objects, only the held one
        can be examined; a lamp in a closed drawer can be switched on; a microwave heats while it is closed.
        """
        game, place, held = self.game, state.place, state.held
        names, objects = game.receptacles, game.objects
        found = {"look": _LOOK, "inventory": _INVENTORY}
        if self.dialect.help:
            found["help"] = _HELP
        for site, command, action in self._going:
            if site != place:
                found[command] = action
        for receptacle in self._here.get(place, ()):
            name = names[receptacle]
            found[f"examine {name}"] = Action("examine", receptacle=receptacle)
            is_open = True
            if game.openable >> receptacle & 1:
                is_open = bool(state.opened >> receptacle & 1)
                verb = "close" if is_open else "open"
                found[f"{verb} {name}"] = Action(verb, receptacle=receptacle)
            contents = state.contents[receptacle]
            for thing in members(contents & game.toggleable):
                found[f"use {objects[thing]}"] = Action("use", thing, receptacle)
            if held == NOTHING:
                if is_open:
                    for thing in members(contents & game.pickupable):
                        found[f"take {objects[thing]} from {name}"] = Action("take", thing, receptacle)
            else:
                self._commands_with_held(found, state, receptacle, is_open)
        if held != NOTHING:
            found[f"examine {objects[held]}"] = Action("inspect", held)
            if game.knives >> held & 1:
                for thing in members(state.ground[place] & game.sliceable):
                    found[f"slice {objects[thing]} with {objects[held]}"] = Action("slice", thing, held)
        return found

    def _commands_with_held(self, found: dict[str, Action], state: State, receptacle: int, is_open: bool) -> None:
        game, held = self.game, state.held
        thing, name = game.objects[held], game.receptacles[receptacle]
        if is_open and game.accepts[receptacle] >> held & 1:
            found[self.dialect.put.format(object=thing, receptacle=name)] = Action("put", held, receptacle)
        for verb, tools, fitting in (
            ("clean", game.washers, game.cleanable),
            ("heat", game.heaters, game.heatable),
            ("cool", game.coolers, game.coolable),
        ):
            if tools >> receptacle & 1 and fitting >> held & 1:
                found[f"{verb} {thing} with {name}"] = Action(verb, held, receptacle)

    def command(self, action: Action) -> str:
        """Return the command that means an action."""
        game = self.game
        thing = game.objects[action.thing] if action.thing != NOTHING else ""
        if action.verb == "slice":
            return f"slice {thing} with {game.objects[action.receptacle]}"
        name = game.receptacles[action.receptacle] if action.receptacle != NOTHING else ""
        match action.verb:
            case "go":
                return f"go to {name}"
            case "inspect":
                return f"examine {thing}"
            case "examine" | "open" | "close":
                return f"{action.verb} {name}"
            case "take":
                return f"take {thing} from {name}"
            case "put":
                return self.dialect.put.format(object=thing, receptacle=name)
            case "use":
                return f"use {thing}"
            case "clean" | "heat" | "cool":
                return f"{action.verb} {thing} with {name}"
        return action.verb

    def perform(self, state: State, action: Action) -> tuple[State, str]:
        """Return the state after an action that is possible in ``state``, and what the game says."""
        game, (verb, thing, receptacle) = self.game, action
        after = changed(game, state, action)
        match verb:
            case "look":
                return after, describe_place(game, after)
            case "inventory":
                return after, describe_inventory(game, after)
            case "help":
                return after, self.dialect.help
            case "examine":
                return after, describe_receptacle(game, after, receptacle)
            case "inspect":
                return after, describe_object(game, after, thing)
            case "use":
                return after, f"You turn on the {game.objects[thing]}."
            case "slice":
                return after, f"You sliced the {game.objects[thing]} with the {game.objects[receptacle]}."
        name = game.receptacles[receptacle]
        match verb:
            case "go":
                arrival = game.places[after.place] if self.dialect.arrives_at_place else name
                return after, f"You arrive at {arrival}. {describe_receptacle(game, after, receptacle)}"
            case "open":
                return after, f"You open the {name}. {describe_receptacle(game, after, receptacle)}"
            case "close":
                return after, f"You close the {name}."
            case "take":
                return after, f"You pick up the {game.objects[thing]} from the {name}."
            case "put":
                return after, self.dialect.put_feedback.format(object=game.objects[thing], receptacle=name)
        return after, f"You {verb} the {game.objects[thing]} using the {name}."


def changed(game: Game, state: State, action: Action) -> State:
    """Return the state after an action that is possible in ``state``."""
    verb, thing, receptacle = action
    match verb:
        case "go":
            return state._replace(place=game.sites[receptacle])
        case "open":
            return state._replace(opened=state.opened | 1 << receptacle)
        case "close":
            return state._replace(opened=state.opened & ~(1 << receptacle))
        case "take":
            return state._replace(
                held=thing,
                contents=_without(state.contents, receptacle, thing),
                ground=_without(state.ground, state.place, thing),
                taken=_with(state.taken, receptacle, thing),
            )
        case "put":
            return state._replace(
                held=NOTHING,
                contents=_with(state.contents, receptacle, thing),
                ground=_with(state.ground, state.place, thing),
                taken=_without(state.taken, receptacle, thing),
            )
        case "use":
            return state._replace(lit=state.lit | 1 << thing)
        case "clean":
            return state._replace(clean=state.clean | 1 << thing)
        case "heat":
            return state._replace(hot=state.hot | 1 << thing, cool=state.cool & ~(1 << thing))
        case "cool":
            return state._replace(cool=state.cool | 1 << thing, hot=state.hot & ~(1 << thing))
        case "slice":
            return state._replace(sliced=state.sliced | 1 << thing)
    return state


def _with(sets: tuple[int, ...], index: int, number: int) -> tuple[int, ...]:
    return (*sets[:index], sets[index] | 1 << number, *sets[index + 1 :])


def _without(sets: tuple[int, ...], index: int, number: int) -> tuple[int, ...]:
    return (*sets[:index], sets[index] & ~(1 << number), *sets[index + 1 :])
