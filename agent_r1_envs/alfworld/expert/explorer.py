"""An agent that knows only what the game's texts have shown, and searches the room for the rest."""

from __future__ import annotations

from typing import Any, NamedTuple

from agent_r1_envs.alfworld.expert.planner import shortest_plan
from agent_r1_envs.alfworld.expert.routes import Knowledge
from agent_r1_envs.alfworld.game.engine import Action, Engine
from agent_r1_envs.alfworld.game.model import Game, State, members

__all__ = ["Notes", "explore", "noted"]


class Notes(NamedTuple):
    """What was shown so far. Nobody but the agent changes anything, so what it has seen stays true.

    Attributes:
        visited: Receptacles that were described, if only as closed.
        seen: Receptacles whose contents were listed.
    """

    visited: int = 0
    seen: int = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Notes:
        return self  # it is immutable


def noted(notes: Notes, game: Game, after: State, action: Action) -> Notes:
    """Return the notes after an action, which led to the state ``after``."""
    if action.verb not in ("go", "examine", "open"):
        return notes
    receptacle = 1 << action.receptacle
    shown = receptacle if not game.openable & receptacle or after.opened & receptacle else 0
    return Notes(notes.visited | receptacle, notes.seen | shown)


def explore(engine: Engine, state: State, notes: Notes) -> Action | None:
    """Return the next action: of a plan with what is known, or else a look where nobody has looked yet.

    That a kind of receptacle holds a kind of object, or can be put to use, is common sense and known from the start.

    Returns:
        The action; None where the whole room is known and no plan wins, or the game is won.
    """
    game = engine.game
    plan = shortest_plan(game, state, _knowledge(game, state, notes))
    if plan is not None:
        return _look_first(notes, plan[0]) if plan else None
    unseen = [receptacle for receptacle in range(len(game.receptacles)) if not notes.seen >> receptacle & 1]
    here = set(engine.here(state))
    wanted = game.goal.lamps | game.goal.targets

    def reluctance(receptacle: int) -> tuple[bool, bool]:
        return receptacle not in here, not game.accepts[receptacle] & wanted

    if not unseen:
        return None
    target = min(unseen, key=reluctance)
    if target not in here:
        return Action("go", receptacle=target)
    if not notes.visited >> target & 1:
        return Action("examine", receptacle=target)
    return Action("open", receptacle=target)


def _knowledge(game: Game, state: State, notes: Notes) -> Knowledge:
    """Return what the notes tell; places are known where the agent has been."""
    been = {state.place, *(game.sites[receptacle] for receptacle in members(notes.visited))}
    return Knowledge(
        tuple(site if site in been else -1 - receptacle for receptacle, site in enumerate(game.sites)),
        game.openable & notes.visited,
        tuple(inside if notes.seen >> receptacle & 1 else 0 for receptacle, inside in enumerate(state.contents)),
    )


def _look_first(notes: Notes, action: Action) -> Action:
    """Return ``action``, or a look at the receptacle if it is here and was never described: it may be closed."""
    receptacle = action.receptacle
    if action.verb == "put" and not notes.visited >> receptacle & 1:
        return Action("examine", receptacle=receptacle)
    return action
