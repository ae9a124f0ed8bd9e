"""Draws what the agent knows of the room."""

from __future__ import annotations

from agent_r1_envs.alfworld.expert.explorer import Notes
from agent_r1_envs.alfworld.game.engine import Engine
from agent_r1_envs.alfworld.game.model import NOTHING, State, members

__all__ = ["draw"]


def draw(engine: Engine, state: State, notes: Notes) -> str:
    """Return the room as text: where the agent is, what it holds, and what it has seen in each receptacle."""
    game = engine.game
    here = engine.here(state)
    width = max(map(len, game.receptacles))
    where = ", ".join(game.receptacles[receptacle] for receptacle in here) or "the middle of the room"
    held = "nothing" if state.held == NOTHING else game.objects[state.held]
    lines = [f"At: {where}", f"Holds: {held}{_condition(state, state.held)}"]
    for receptacle, name in enumerate(game.receptacles):
        mark = ">" if receptacle in here else " "
        lines.append(f"{mark} {name:<{width}}  {_contents(engine, state, notes, receptacle)}".rstrip())
    return "\n".join(lines)


def _contents(engine: Engine, state: State, notes: Notes, receptacle: int) -> str:
    game = engine.game
    closed = game.openable >> receptacle & 1 and not state.opened >> receptacle & 1
    if not notes.visited >> receptacle & 1:
        return "?"
    if not notes.seen >> receptacle & 1:
        return "closed"
    things = ", ".join(game.objects[thing] + _condition(state, thing) for thing in members(state.contents[receptacle]))
    return f"{things or '-'}{' (closed)' if closed else ''}"


def _condition(state: State, thing: int) -> str:
    if thing == NOTHING:
        return ""
    conditions = (("clean", state.clean), ("hot", state.hot), ("cool", state.cool), ("on", state.lit))
    words = [word for word, bits in (*conditions, ("sliced", state.sliced)) if bits >> thing & 1]
    return f" ({', '.join(words)})" if words else ""
