"""Writes games as ``game.tw-pddl`` files that the original, ALFWorld on TextWorld, plays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from agent_r1_envs.alfworld.game.dialects import recognise
from agent_r1_envs.alfworld.game.model import Game, members
from agent_r1_envs.alfworld.generator.vocabulary import OBJECTS, RECEPTACLES, base_of
from agent_r1_envs.alfworld.official.parsing import kind_of
from agent_r1_envs.alfworld.tasks import HouseholdTask
from agent_r1_envs.files import expand
from agent_r1_envs.tasks import TaskSet

__all__ = ["export_game", "export_panel", "installed_rules"]

_GOAL: Final = "UNKNOWN GOAL."
_AGENT: Final = "agent1"
_SPELLED: Final = {kind.lower(): kind for kind in (*OBJECTS, *RECEPTACLES)}
# What the rules mention has to be declared, whether the household has it or not.
_RULES_MENTION: Final = {"rtype": ("SinkBasin", "Microwave", "Fridge"), "otype": ("Knife", "ButterKnife", "Sink")}
_PROPERTIES: Final = ("pickupable", "toggleable", "cleanable", "heatable", "coolable", "sliceable")
_CONDITIONS: Final = {"clean": "isClean", "hot": "isHot", "cool": "isCool", "lit": "isToggled", "sliced": "isSliced"}
_TREATED: Final = {
    "pick_and_place_simple": "",
    "pick_clean_then_place_in_recep": "(cleanable ?o) (isClean ?o) ",
    "pick_heat_then_place_in_recep": "(heatable ?o) (isHot ?o) ",
    "pick_cool_then_place_in_recep": "(coolable ?o) (isCool ?o) ",
}
_TWO: Final = (
    "(exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 {o}Type) (receptacleType ?r {r}Type) "
    "(inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 {o}Type) "
    "(receptacleType ?r {r}Type) (inReceptacle ?o2 ?r))))))"
)
_LOOK: Final = (
    "(exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot {l}Type) (toggleable ?ot) "
    "(isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r))) "
    "(exists (?o - object ?a - agent) (and (objectType ?o {o}Type) (holds ?a ?o)))"
)
_PUT: Final = (
    "(exists (?r - receptacle) (exists (?o - object) (and {treated}(objectType ?o {o}Type) (receptacleType ?r {r}Type) "
    "(inReceptacle ?o ?r))))"
)


def export_game(game: Game, rules: tuple[str, str] | None = None) -> dict[str, Any]:
    """Return the content of the ``game.tw-pddl`` of a game.

    Args:
        game: The game; its kinds must be what names say, as they are in generated games.
        rules: Domain and grammar, the latter with ``UNKNOWN GOAL.`` in place of the task; None for those that the
            installed alfworld package brings.

    Raises:
        ImportError: The package is not installed; the message has the pip command.
        DataError: The rules are not of a known dialect, or the task holds markup.
    """
    domain, grammar = installed_rules() if rules is None else rules
    grammar = grammar.replace(_GOAL, json.dumps(game.task, ensure_ascii=False)[1:-1])
    recognise(domain, grammar)
    problem = f"(define (problem generated)\n(:domain alfred)\n{_objects(game)}\n{_init(game)}\n{_goal(game)}\n)\n"
    return {"pddl_domain": domain, "grammar": grammar, "pddl_problem": problem, "solvable": True}


def export_panel(tasks: TaskSet[HouseholdTask], folder: str | Path, rules: tuple[str, str] | None = None) -> list[Path]:
    """Write every game of a panel, with the ``traj_data.json`` that alfworld looks for.

    Args:
        tasks: The panel, as ``load_tasks`` returns it.
        folder: Where to; the games go to ``<folder>/<split>/<task>/<id>/``.
        rules: As for :func:`export_game`.

    Returns:
        The game files, in the order of the panel.
    """
    rules = rules or installed_rules()
    files = []
    for task_id, task in zip(tasks.ids, tasks, strict=True):
        game = task.load().game
        goal = game.goal
        names = [_spelled(name) if name else "" for name in (goal.target, goal.receptacle, goal.lamp)]
        trial = expand(folder) / tasks.split / f"{goal.task_type}-{names[0]}-None-{names[1] or names[2]}" / task_id
        trial.mkdir(parents=True, exist_ok=True)
        trajectory = {
            "task_id": task_id,
            "task_type": goal.task_type,
            "pddl_params": {
                "object_target": names[0],
                "parent_target": names[1],
                "toggle_target": names[2],
                "mrecep_target": "",
                "object_sliced": False,
            },
            "turk_annotations": {"anns": [{"task_desc": text} for text in task.load().annotations]},
        }
        (trial / "traj_data.json").write_text(json.dumps(trajectory), encoding="utf-8")
        file = trial / "game.tw-pddl"
        file.write_text(json.dumps(export_game(game, rules)), encoding="utf-8")
        files.append(file)
    return files


def installed_rules() -> tuple[str, str]:
    """Return domain and grammar of the installed alfworld package, without importing it.

    Raises:
        ImportError: The package is not installed; the message has the pip command.
    """
    spec = find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("exporting games needs the rules of alfworld: pip install 'agent-r1[alfworld]'")
    data = Path(spec.submodule_search_locations[0]) / "data"
    return tuple((data / name).read_text(encoding="utf-8") for name in ("alfred.pddl", "alfred.twl2"))  # type: ignore[return-value]


def _objects(game: Game) -> str:
    declared = [f"{_AGENT} - agent"]
    for sort, ids in (
        ("location", _places(game)),
        ("receptacle", _ids(game.receptacles)),
        ("object", _ids(game.objects)),
    ):
        declared += [f"{name} - {sort}" for name in ids]
    kinds = {
        "rtype": {_spelled(kind_of(name)) for name in game.receptacles} | {*_RULES_MENTION["rtype"]},
        "otype": {_spelled(kind_of(name)) for name in game.objects} | {*_RULES_MENTION["otype"]},
    }
    declared += [f"{kind}Type - {sort}" for sort, found in kinds.items() for kind in sorted(found)]
    return "(:objects\n" + "\n".join(f"  {line}" for line in declared) + "\n)"


def _init(game: Game) -> str:
    return "(:init\n" + "\n".join(f"  ({fact})" for fact in _facts(game)) + "\n)"


def _facts(game: Game) -> Iterator[str]:
    places, receptacles, objects = _places(game), _ids(game.receptacles), _ids(game.objects)
    kinds = [_spelled(kind_of(name)) for name in game.objects]
    start = game.start
    yield f"atLocation {_AGENT} {places[start.place]}"
    accepted = set()
    for number, name in enumerate(receptacles):
        kind = _spelled(kind_of(game.receptacles[number]))
        yield f"receptacleType {name} {kind}Type"
        yield f"receptacleAtLocation {name} {places[game.sites[number]]}"
        for predicate, bits in (("openable", game.openable), ("opened", start.opened)):
            if bits >> number & 1:
                yield f"{predicate} {name}"
        accepted |= {(kind, kinds[thing]) for thing in members(game.accepts[number])}
        yield from (f"inReceptacle {objects[thing]} {name}" for thing in members(start.contents[number]))
    yield from (f"canContain {kind}Type {thing}Type" for kind, thing in sorted(accepted))
    for thing, name in enumerate(objects):
        yield f"objectType {name} {kinds[thing]}Type"
        yield from (f"{predicate} {name}" for predicate in _PROPERTIES if getattr(game, predicate) >> thing & 1)
        yield from (
            f"{said} {name}" for condition, said in _CONDITIONS.items() if getattr(start, condition) >> thing & 1
        )
        if game.vessels >> thing & 1:
            yield f"isReceptacleObject {name}"
    yield from (f"inReceptacleObject {objects[inner]} {objects[outer]}" for outer, inner in game.inside)
    for place, things in enumerate(start.ground):
        yield from (f"objectAtLocation {objects[thing]} {places[place]}" for thing in members(things))


def _goal(game: Game) -> str:
    goal = game.goal
    kinds = {"o": _spelled(goal.target), "r": _spelled(goal.receptacle), "l": _spelled(goal.lamp)}
    if goal.task_type == "pick_two_obj_and_place":
        text = _TWO.format(**kinds)
    elif goal.task_type == "look_at_obj_in_light":
        text = _LOOK.format(**kinds)
    else:
        text = _PUT.format(**kinds, treated=_TREATED[goal.task_type])
    return f"(:goal (and {text}))"


def _places(game: Game) -> list[str]:
    """Return an id for each place; they sort as they are numbered."""
    return [f"loc_bar_{number:04d}_bar_0_bar_0_bar_30" for number in range(len(game.places))]


def _ids(names: tuple[str, ...]) -> list[str]:
    """Return an id for each thing, as THOR writes them; they sort as they are numbered."""
    ids = []
    for number, name in enumerate(names):
        kind = _spelled(kind_of(name))
        base = base_of(kind)
        ids.append(
            f"{base}_bar__plus_{number // 100:02d}_dot_{number % 100:02d}{f'_bar_{kind}' if base != kind else ''}"
        )
    return ids


def _spelled(kind: str) -> str:
    return _SPELLED.get(kind, kind.capitalize())
