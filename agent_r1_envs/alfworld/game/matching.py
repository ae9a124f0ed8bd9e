"""What a command that is none may have meant, and why it is none."""

from __future__ import annotations

import re
from typing import Final

from agent_r1_envs.alfworld.game.engine import Engine
from agent_r1_envs.alfworld.game.model import NOTHING, State
from agent_r1_envs.text import echo

__all__ = ["normalised", "why_not"]

_PUT: Final = re.compile(r"(?:put|move|place) (.+?) (?:in/on|in|on|into|onto|to) (.+)")
_AT: Final = re.compile(r"(go to|examine|open|close) (.+)")
_TAKE: Final = re.compile(r"take (.+?) from (.+)")
_TREAT: Final = re.compile(r"(clean|heat|cool) (.+?) with (.+)")
_TREATMENTS: Final = {"clean": "washers", "heat": "heaters", "cool": "coolers"}


def normalised(engine: Engine, command: str) -> str:
    """Return a command without what lenient matching forgives: case, spacing, dots at the end, the words of putting."""
    text = " ".join(command.lower().split()).rstrip(". ")
    match = _PUT.fullmatch(text)
    return engine.dialect.put.format(object=match[1], receptacle=match[2]) if match else text


def why_not(engine: Engine, state: State, command: str) -> str:
    """Return why a command that is not possible is not, as far as the agent can know."""
    text = command.strip()
    meant = normalised(engine, text)
    if not text:
        return "the command is empty"
    if meant in engine.commands(state):
        return f"commands are matched exactly: {meant!r} would be one"
    for pattern, reason in ((_AT, _why_not_at), (_TAKE, _why_not_take), (_TREAT, _why_not_treat)):
        match = pattern.fullmatch(text)
        if match is not None:
            return reason(engine, state, *match.groups())
    match = _PUT.fullmatch(meant)
    if match is not None:
        return _why_not_put(engine, state, match[1], match[2])
    return f"{echo(text)!r} is no command; commands begin with {', '.join(_verbs(engine))}"


def _why_not_at(engine: Engine, state: State, verb: str, name: str) -> str:
    game = engine.game
    if verb == "examine" and name in game.objects:
        return f"only an object in the hand can be examined, not the {name}"
    if name not in game.receptacles:
        return _unknown(name)
    if verb == "go to":
        return f"the {name} is at this place already: act on it without going to it"
    receptacle = game.receptacles.index(name)
    if receptacle not in engine.here(state):
        return _elsewhere(name)
    if not game.openable >> receptacle & 1:
        return f"the {name} has no door"
    return f"the {name} is {'open' if state.opened >> receptacle & 1 else 'closed'} already"


def _why_not_take(engine: Engine, state: State, thing: str, name: str) -> str:
    game = engine.game
    if state.held != NOTHING:
        return f"the hand is full: it holds the {game.objects[state.held]}"
    problem = _why_out_of_reach(engine, state, name, inside=True)
    if problem:
        return problem
    if thing in game.objects:
        number, receptacle = game.objects.index(thing), game.receptacles.index(name)
        if state.contents[receptacle] >> number & 1:
            return f"the {thing} cannot be taken"
    return f"there is no {echo(thing)} in or on the {name}"


def _why_not_put(engine: Engine, state: State, thing: str, name: str) -> str:
    if state.held == NOTHING or engine.game.objects[state.held] != thing:
        return _not_held(thing)
    return _why_out_of_reach(engine, state, name, inside=True) or f"the {thing} does not belong in or on the {name}"


def _why_not_treat(engine: Engine, state: State, verb: str, thing: str, name: str) -> str:
    if state.held == NOTHING or engine.game.objects[state.held] != thing:
        return _not_held(thing)
    problem = _why_out_of_reach(engine, state, name, inside=False)
    if problem:
        return problem
    fitting: int = getattr(engine.game, _TREATMENTS[verb])
    if not fitting >> engine.game.receptacles.index(name) & 1:
        return f"nothing can be {_past(verb)} with the {name}"
    return f"the {thing} cannot be {_past(verb)}"


def _why_out_of_reach(engine: Engine, state: State, name: str, *, inside: bool) -> str:
    game = engine.game
    if name not in game.receptacles:
        return _unknown(name)
    receptacle = game.receptacles.index(name)
    if receptacle not in engine.here(state):
        return _elsewhere(name)
    if inside and game.openable >> receptacle & 1 and not state.opened >> receptacle & 1:
        return f"the {name} is closed"
    return ""


def _verbs(engine: Engine) -> list[str]:
    put = engine.dialect.put.split(" ", 1)[0]
    help_verb = ["help"] if engine.dialect.help else []
    return ["go to", "open", "close", "take", put, "examine", "use", "clean", "heat", "cool", "slice", "look",
            "inventory", *help_verb]  # fmt: skip


def _unknown(name: str) -> str:
    return f"there is no receptacle {echo(name)!r}"


def _elsewhere(name: str) -> str:
    return f"the {name} is not at this place: go to it first"


def _not_held(thing: str) -> str:
    return f"the hand does not hold {echo(thing)!r}"


def _past(verb: str) -> str:
    return {"clean": "cleaned", "heat": "heated", "cool": "cooled"}[verb]
