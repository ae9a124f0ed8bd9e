"""Generates household tasks of all six types; every game can be solved.

A pair of an object and the receptacle (or lamp) that it goes to is either for training or held out, by a fixed rule.
Splits ``train`` and ``valid_seen`` have the first in different households, ``valid_unseen`` only has the others, so
that no training game of any seed shows a held-out pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from random import Random
from typing import Any, Final

from agent_r1_envs.alfworld.game.model import TASK_TYPES, Game, Goal
from agent_r1_envs.alfworld.generator.households import Household, below, between, pick
from agent_r1_envs.alfworld.generator.vocabulary import (
    ACCEPTS,
    CLEANABLE,
    COOLABLE,
    HEATABLE,
    LAMP_SITES,
    LAMPS,
    OBJECTS,
    RECEPTACLES,
    SCENE_OBJECTS,
    SCENES,
)

__all__ = ["DIFFICULTIES", "PANEL", "Difficulty", "difficulty_of", "generate_game", "is_held_out"]

PANEL: Final = {"train": (3600, 0), "valid_seen": (240, 0), "valid_unseen": (240, 0)}
"""Number of games and seed of each embedded split."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """How much there is in a household; each is an inclusive range.

    Attributes:
        receptacles: Receptacles; more where a task needs them, fewer where the scene does not have so many.
        objects: Objects that have nothing to do with the task.
        distractors: Objects of other kinds that could be mistaken for the target: the goal accepts them too.
    """

    receptacles: tuple[int, int] = (12, 26)
    objects: tuple[int, int] = (8, 20)
    distractors: tuple[int, int] = (1, 4)


DIFFICULTIES: Final = {
    "easy": Difficulty((4, 6), (2, 4), (0, 1)),
    "standard": Difficulty(),
    "hard": Difficulty((24, 40), (24, 40), (4, 8)),
}
"""The named difficulties."""

_MOST: Final = 200
_TEXTS: Final = {
    "pick_and_place_simple": ("put a {o} in {r}.", "put some {o} on {r}."),
    "look_at_obj_in_light": ("look at {o} under the {l}.", "examine the {o} with the {l}."),
    "pick_clean_then_place_in_recep": ("put a clean {o} in {r}.", "clean some {o} and put it in {r}."),
    "pick_heat_then_place_in_recep": ("put a hot {o} in {r}.", "heat some {o} and put it in {r}."),
    "pick_cool_then_place_in_recep": ("put a cool {o} in {r}.", "cool some {o} and put it in {r}."),
    "pick_two_obj_and_place": ("put two {o} in {r}.", "find two {o} and put them in {r}."),
}
# Task type -> the objects that it can be about, and the receptacle that it needs besides.
_TREATED: Final = {
    "pick_clean_then_place_in_recep": (CLEANABLE, "SinkBasin"),
    "pick_heat_then_place_in_recep": (HEATABLE, "Microwave"),
    "pick_cool_then_place_in_recep": (COOLABLE, "Fridge"),
}


def generate_game(
    split: str, number: int, *, seed: int = 0, difficulty: Difficulty | None = None, task_type: str | None = None
) -> Game:
    """Make one game; the same on every machine, whatever games were made before.

    Args:
        split: ``train``, ``valid_seen`` or ``valid_unseen``.
        number: Which game, from 0.
        seed: Any integer; another seed gives other households.
        difficulty: How much there is in it; None for the standard.
        task_type: Its task type; None takes them in turn.

    Raises:
        ValueError: There is no such split or task type.
    """
    if split not in PANEL:
        raise ValueError(f"split must be one of {', '.join(PANEL)}; got {split!r}")
    kind = TASK_TYPES[number % len(TASK_TYPES)] if task_type is None else task_type
    if kind not in TASK_TYPES:
        raise ValueError(f"task_type must be one of {', '.join(TASK_TYPES)}; got {task_type!r}")
    rng = Random(f"agent-r1 alfworld {split} {seed} {number}")
    scene, target, goal = pick(rng, _choices(kind, split == "valid_unseen"))
    return _furnish(rng, scene, kind, target, goal, difficulty or DIFFICULTIES["standard"])


def is_held_out(target: str, goal: str) -> bool:
    """Return whether a pair of kinds, of an object and a receptacle or lamp, never comes in training."""
    places = (*RECEPTACLES, *sorted(LAMP_SITES))
    return (3 * OBJECTS.index(target) + 5 * places.index(goal)) % 7 == 0


def difficulty_of(value: str | Mapping[str, Any]) -> Difficulty:
    """Return a difficulty of its name, or of ranges by name, over the standard.

    Raises:
        ValueError: There is no such difficulty, or a range is none.
    """
    if isinstance(value, str):
        if value not in DIFFICULTIES:
            raise ValueError(f"difficulty must be one of {', '.join(DIFFICULTIES)}, or ranges; got {value!r}")
        return DIFFICULTIES[value]
    names = [field.name for field in fields(Difficulty)]
    if not isinstance(value, Mapping) or set(value) - set(names):
        raise ValueError(f"difficulty must be a name, or ranges for {', '.join(names)}; got {value!r}")
    return replace(DIFFICULTIES["standard"], **{name: _range(name, bounds) for name, bounds in value.items()})


def _range(name: str, bounds: Any) -> tuple[int, int]:
    ends = (bounds, bounds) if isinstance(bounds, int) else bounds
    if (
        not isinstance(ends, list | tuple)
        or len(ends) != 2
        or any(isinstance(end, bool) or not isinstance(end, int) for end in ends)
        or not 0 <= ends[0] <= ends[1] <= _MOST
    ):
        raise ValueError(
            f"difficulty, {name}: expected a number or a range [least, most] up to {_MOST}; got {bounds!r}"
        )
    return ends[0], ends[1]


@cache
def _choices(task_type: str, held_out: bool) -> tuple[tuple[str, str, str], ...]:
    """Return what a task can be about: scene, object, and receptacle or lamp."""
    found = []
    for scene, kinds in SCENES.items():
        if task_type == "look_at_obj_in_light":
            lamp = LAMPS.get(scene)
            pairs = [(thing, lamp) for thing in SCENE_OBJECTS[scene]] if lamp else []
        else:
            things, tool = _TREATED.get(task_type, (frozenset(OBJECTS), None))
            if tool is not None and tool not in kinds:
                continue
            pairs = [
                (thing, kind)
                for thing in SCENE_OBJECTS[scene]
                for kind in kinds
                if thing in things
                and thing in ACCEPTS[kind]
                and (task_type, kind) != ("pick_clean_then_place_in_recep", tool)
            ]
        for thing, goal in pairs:
            # It has to be somewhere else at the beginning.
            somewhere = any(kind != goal and thing in ACCEPTS[kind] for kind in kinds)
            if somewhere and is_held_out(thing, goal) == held_out:
                found.append((scene, thing, goal))
    return tuple(found)


def _furnish(rng: Random, scene: str, task_type: str, target: str, goal: str, difficulty: Difficulty) -> Game:
    lamp = goal if task_type == "look_at_obj_in_light" else ""
    receptacle = "" if lamp else goal
    elsewhere = [kind for kind in SCENES[scene] if kind != receptacle and target in ACCEPTS[kind]]
    needed = {pick(rng, elsewhere)}
    if receptacle:
        needed.add(receptacle)
    if task_type in _TREATED:
        needed.add(_TREATED[task_type][1])
    if lamp:
        sites = [kind for kind in LAMP_SITES[lamp] if kind in SCENES[scene]]
        if not needed.intersection(sites):
            needed.add(pick(rng, sites))
    house = Household(scene)
    house.build(rng, sorted(needed), between(rng, difficulty.receptacles))
    wanted = 2 if task_type == "pick_two_obj_and_place" else 1
    sources = house.sites_for(target, without=receptacle)
    for _ in range(wanted + below(rng, 2)):
        house.put(rng, target, sources)
    others = [kind for kind in SCENE_OBJECTS[scene] if kind != target]
    alike = [kind for kind in others if not receptacle or kind in ACCEPTS[receptacle]]
    house.put_anywhere(rng, alike, between(rng, difficulty.distractors))
    house.put_anywhere(rng, others, between(rng, difficulty.objects))
    if scene in LAMPS and (lamp or rng.random() < 0.5):
        sites = list(LAMP_SITES[LAMPS[scene]])
        house.put(rng, LAMPS[scene], [n for n, kind in enumerate(house.receptacles) if kind in sites])
    text = pick(rng, _TEXTS[task_type]).format(o=target.lower(), r=receptacle.lower(), l=lamp.lower())
    return house.game(rng, text, Goal(task_type, target, 0, receptacle, 0, lamp, 0))
