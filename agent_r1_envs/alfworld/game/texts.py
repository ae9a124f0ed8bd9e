"""What a game says, word for word as TextWorld derives it from the official grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent_r1_envs.alfworld.game.dialects import TASK_PREFIX
from agent_r1_envs.alfworld.game.model import NOTHING, Game, State, members

__all__ = ["NOTHING_HAPPENS", "describe_inventory", "describe_object", "describe_place", "describe_receptacle", "intro"]

NOTHING_HAPPENS: Final = "Nothing happens."

_WELCOME: Final = "-= Welcome to TextWorld, ALFRED! =-"


def listing(things: Sequence[str]) -> str:
    """Join things as the game does: with ``, and `` even between two."""
    if not things:
        return "nothing"
    if len(things) == 1:
        return things[0]
    return f"{', '.join(things[:-1])}, and {things[-1]}"


def intro(game: Game, state: State, task: str) -> str:
    """Return the first observation."""
    return f"{_WELCOME}\n\n{describe_place(game, state, first=True)}\n\n{TASK_PREFIX}{task}"


def describe_place(game: Game, state: State, first: bool = False) -> str:
    """Return the answer to ``look``; only the first one, in the middle of the room, lists the receptacles."""
    here = [number for number, site in enumerate(game.sites) if site == state.place]
    if not here:
        seen = listing(a_list(game.receptacles)) if first else "nothing"
        return f"You are in the middle of a room. Looking quickly around you, you see {seen}."
    beside = [
        f"a {game.objects[thing]}"
        for thing in members(state.ground[state.place])
        for receptacle in here
        if state.taken[receptacle] >> thing & 1
    ]
    return f"You are facing the {listing([game.receptacles[r] for r in here])}. Next to it, you see {listing(beside)}."


def describe_receptacle(game: Game, state: State, receptacle: int) -> str:
    """Return what is in or on a receptacle, or that it is closed."""
    name = game.receptacles[receptacle]
    openable = game.openable >> receptacle & 1
    if openable and not state.opened >> receptacle & 1:
        return f"The {name} is closed."
    seen = listing([f"a {game.objects[thing]}" for thing in members(state.contents[receptacle])])
    return f"The {name} is open. In it, you see {seen}." if openable else f"On the {name}, you see {seen}."


def describe_object(game: Game, state: State, thing: int) -> str:
    """Return the answer to ``examine`` for an object."""
    name = game.objects[thing]
    if game.vessels >> thing & 1:
        inside = listing([f"a {game.objects[inner]}" for outer, inner in game.inside if outer == thing])
        return f"This is a normal {name}. In it, you see {inside}."
    clean, hot, cool, sliced = (bool(bits >> thing & 1) for bits in (state.clean, state.hot, state.cool, state.sliced))
    if clean or hot or cool:
        warmth = "hot" if hot else "cool" if cool else ""
        words = " and ".join(word for word in (warmth, "clean" if clean else "") if word)
        if sliced:
            return f"This is a {words} sliced {name}."
        return f"This is a {'cold' if words == 'cool' else words} {name}."
    if (game.toggleable & state.lit) >> thing & 1:
        return f"This {name} is on."
    if sliced and game.sliceable >> thing & 1:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."


def describe_inventory(game: Game, state: State) -> str:
    """Return the answer to ``inventory``."""
    if state.held == NOTHING:
        return "You are not carrying anything."
    return f"You are carrying: a {game.objects[state.held]}."


def a_list(names: Sequence[str]) -> list[str]:
    """Put the article before each name; it is always the same."""
    return [f"a {name}" for name in names]
