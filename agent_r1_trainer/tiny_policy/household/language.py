"""Every word that the household policy meets in its environment."""

from __future__ import annotations

from typing import Final

from agent_r1_envs.alfworld.generator.vocabulary import OBJECTS, RECEPTACLES

__all__ = ["environment_words"]

# What the game says beside the names of things; the text of the command `help`, which nobody is shown, is not in it.
_TEXTS: Final = (
    "-= Welcome to TextWorld ALFRED =- You are in the middle of a room Looking quickly around you see nothing "
    "Your task is put some on clean it and hot heat cool find two them look at under examine with "
    "arrive The closed open In On facing Next pick up from move close using turn slice slices sliced "
    "This normal cold There s special about carrying not anything Nothing happens"
)
_COMMANDS: Final = "go to take from move open close examine use clean heat cool slice with look inventory"


def environment_words() -> tuple[str, ...]:
    """Return the names of all things and the words of the game's own sentences, sorted."""
    things = {kind.lower() for kind in (*OBJECTS, *RECEPTACLES)}
    return tuple(sorted({*things, *_TEXTS.split(), *_COMMANDS.split()}))
