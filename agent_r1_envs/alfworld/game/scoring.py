"""Whether a game is won, and how much of its goal is reached."""

from __future__ import annotations

from typing import Final

from agent_r1_envs.alfworld.game.model import NOTHING, Game, State, members

__all__ = ["PROCESS", "goal_conditions", "is_won"]

PROCESS: Final = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
}
"""What has to be done to the object first, in the task types that ask for it."""


def is_won(game: Game, state: State) -> bool:
    """Return whether the goal is reached."""
    goal = game.goal
    if goal.task_type == "look_at_obj_in_light":
        return _holds_target(game, state) and _in_light(game, state)
    placed = [state.contents[receptacle] & goal.targets for receptacle in members(goal.receptacles)]
    if goal.task_type == "pick_two_obj_and_place":
        return any(inside & (inside - 1) for inside in placed)  # more than one bit
    processed = treated(game, state)
    return any(inside & processed for inside in placed)


def goal_conditions(game: Game, state: State) -> tuple[int, int]:
    """Return how many conditions of the goal hold and how many there are, counted as ALFWorld's visual env does.

    Simple 1; two objects 2 (the most in one receptacle); look 2 (holding it, light here); clean, heat and cool 3 (one
    is in place, one is treated, one is both).
    """
    goal = game.goal
    if goal.task_type == "look_at_obj_in_light":
        return int(_holds_target(game, state)) + int(_in_light(game, state)), 2
    placed = [state.contents[receptacle] & goal.targets for receptacle in members(goal.receptacles)]
    if goal.task_type == "pick_two_obj_and_place":
        return min(2, max((inside.bit_count() for inside in placed), default=0)), 2
    if goal.task_type == "pick_and_place_simple":
        return int(any(placed)), 1
    processed = treated(game, state)
    conditions = (any(placed), bool(processed & goal.targets), any(inside & processed for inside in placed))
    return sum(conditions), 3


def treated(game: Game, state: State) -> int:
    """Return the objects that are as the task wants them: clean, hot or cool; all where it does not ask for it."""
    match PROCESS.get(game.goal.task_type):
        case "clean":
            return state.clean
        case "heat":
            return state.hot
        case "cool":
            return state.cool
    return -1


def _holds_target(game: Game, state: State) -> bool:
    return state.held != NOTHING and bool(game.goal.targets >> state.held & 1)


def _in_light(game: Game, state: State) -> bool:
    """Return whether a lamp that is on is in a receptacle where the agent is."""
    shining = state.lit & game.goal.lamps
    if not shining:
        return False
    here = (contents for site, contents in zip(game.sites, state.contents, strict=True) if site == state.place)
    return any(contents & shining for contents in here)
