"""From a game file to a :class:`~agent_r1_envs.alfworld.game.model.Game`.

The file knows things by ids, such as ``apple_bar__plus_00_dot_34_bar_...``; a player knows them by names, such as
``apple 2``, which follow from the ids.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from agent_r1_envs.alfworld.game.dialects import recognise
from agent_r1_envs.alfworld.game.model import NOTHING, Game, Goal, State, bit_set
from agent_r1_envs.alfworld.official.goals import read_goal
from agent_r1_envs.alfworld.official.pddl import Facts, Problem, read_problem
from agent_r1_envs.errors import DataError

__all__ = ["kind_of", "names_of", "parse_game", "read_game_file"]

_KEYS: Final = ("pddl_domain", "grammar", "pddl_problem")

# What a problem may say, and of how many things.
_ARITIES: Final = {
    "atlocation": 2,
    "receptacleatlocation": 2,
    "objectatlocation": 2,
    "inreceptacle": 2,
    "inreceptacleobject": 2,
    "receptacletype": 2,
    "objecttype": 2,
    "cancontain": 2,
    **dict.fromkeys(("openable", "opened", "pickupable", "toggleable", "istoggled"), 1),
    **dict.fromkeys(("cleanable", "isclean", "heatable", "ishot", "coolable", "iscool", "sliceable", "issliced"), 1),
    **dict.fromkeys(("isreceptacleobject", "moveable", "ison", "checked", "full", "isreceptacleobjectfull"), 1),
    "wasinreceptacle": 2,
    "examined": 1,
}

_ON_OBJECTS: Final = (
    "pickupable",
    "toggleable",
    "istoggled",
    "cleanable",
    "isclean",
    "heatable",
    "ishot",
    "coolable",
    "iscool",
    "sliceable",
    "issliced",
    "isreceptacleobject",
)
_KNIVES: Final = ("knifetype", "butterknifetype")
_LARGEST: Final = 1000
_BAR: Final = "_bar_"


def read_game_file(content: bytes | str) -> dict[str, Any]:
    """Read the JSON of a ``game.tw-pddl``.

    Raises:
        DataError: It is no JSON object, or a part is missing.
    """
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected a JSON object, found bad JSON: {error}") from None
    if not isinstance(data, dict):
        raise DataError(f"expected a JSON object, found {type(data).__name__}")
    for key in _KEYS:
        if not isinstance(data.get(key), str):
            raise DataError(f"{key}: expected a text, found {type(data.get(key)).__name__}")
    return data


def parse_game(data: Mapping[str, Any]) -> Game:
    """Parse a game; nothing in it is evaluated.

    Args:
        data: What a ``game.tw-pddl`` holds: ``pddl_domain``, ``grammar`` and ``pddl_problem``.

    Raises:
        DataError: The game is damaged or not one that the engine plays; the message names the part and what was
            expected.
    """
    problem = read_problem(data["pddl_problem"])
    if len(problem.agents) != 1:
        names = ", ".join(problem.agents) or "none"
        raise DataError(f"pddl_problem, :objects: expected one agent, found {len(problem.agents)} ({names})")
    dialect, task = recognise(data["pddl_domain"], data["grammar"])
    return _Household(problem, dialect).game(task)


class _Household:
    """Turns facts about ids into numbers, while a game is parsed."""

    def __init__(self, problem: Problem, dialect: str) -> None:
        self.facts, self.dialect = problem.facts, dialect
        self.goal, self.agent = read_goal(problem.goal), problem.agents[0]
        _check(self.facts)
        self.site = self._unique("receptacleatlocation")
        self.kind = self._unique("objecttype")
        self.receptacle_kind = self._unique("receptacletype")
        things = {thing for predicate in _ON_OBJECTS for thing in self._subjects(predicate)}
        things |= self.kind.keys() | self._subjects("inreceptacle") | self._subjects("objectatlocation")
        things |= {thing for pair in self._pairs("inreceptacleobject") for thing in pair}
        places = set(self.site.values()) | {place for _, place in self._pairs("objectatlocation")}
        places |= {place for _, place in self._pairs("atlocation")}
        self.objects, self.receptacles, self.places = map(_numbered, (things, self.site, places))
        for names in (self.objects, self.receptacles, self.places):
            if len(names) > _LARGEST:
                raise DataError(f"pddl_problem: expected at most {_LARGEST} things of a sort, found {len(names)}")
        if clash := self.objects.keys() & self.receptacles.keys():
            raise DataError(f"pddl_problem: expected an object or a receptacle, found both in {min(clash)!r}")

    def game(self, task: str) -> Game:
        names = names_of({word for pairs in self.facts.values() for pair in pairs for word in pair})
        accepted = self._accepted()
        washing = {"sinkbasintype", "sinktype"} if self.dialect == "2.1.1" else {"sinkbasintype"}
        return Game(
            dialect=self.dialect,
            task=task,
            goal=self._goal(),
            places=tuple(names[name] for name in self.places),
            receptacles=tuple(names[name] for name in self.receptacles),
            sites=tuple(self.places[self.site[name]] for name in self.receptacles),
            openable=self._receptacles(lambda name: (name,) in self.facts.get("openable", {})),
            accepts=tuple(accepted.get(self.receptacle_kind.get(name, ""), 0) for name in self.receptacles),
            washers=self._receptacles(lambda name: self.receptacle_kind.get(name) in washing),
            heaters=self._receptacles(lambda name: self.receptacle_kind.get(name) == "microwavetype"),
            coolers=self._receptacles(lambda name: self.receptacle_kind.get(name) == "fridgetype"),
            objects=tuple(names[name] for name in self.objects),
            pickupable=self._property("pickupable"),
            toggleable=self._property("toggleable"),
            cleanable=self._property("cleanable"),
            heatable=self._property("heatable"),
            coolable=self._property("coolable"),
            sliceable=self._property("sliceable"),
            knives=self._objects(lambda thing: self.kind.get(thing) in _KNIVES),
            vessels=self._property("isreceptacleobject"),
            inside=tuple(
                sorted((self.objects[outer], self.objects[inner]) for inner, outer in self._pairs("inreceptacleobject"))
            ),
            start=self._start(),
        )

    def _start(self) -> State:
        at = [place for who, place in self._pairs("atlocation") if who == self.agent]
        if len(at) != 1:
            raise DataError(f"pddl_problem, :init: expected one place of the agent, found {len(at)}")
        contents = [0] * len(self.receptacles)
        for thing, name in self._pairs("inreceptacle"):
            if name not in self.receptacles:
                raise DataError(f"pddl_problem, :init: expected a place of receptacle {name!r}, found none")
            contents[self.receptacles[name]] |= 1 << self.objects[thing]
        ground = [0] * len(self.places)
        for thing, place in self._pairs("objectatlocation"):
            ground[self.places[place]] |= 1 << self.objects[thing]
        return State(
            place=self.places[at[0]],
            held=NOTHING,
            opened=self._receptacles(lambda name: (name,) in self.facts.get("opened", {})),
            contents=tuple(contents),
            ground=tuple(ground),
            taken=(0,) * len(self.receptacles),
            clean=self._property("isclean"),
            hot=self._property("ishot"),
            cool=self._property("iscool"),
            lit=self._property("istoggled"),
            sliced=self._property("issliced"),
        )

    def _accepted(self) -> dict[str, int]:
        """Return the objects that each kind of receptacle can contain."""
        by_kind: dict[str, int] = {}
        for thing, kind in self.kind.items():
            by_kind[kind] = by_kind.get(kind, 0) | 1 << self.objects[thing]
        accepted: dict[str, int] = {}
        for where, what in self._pairs("cancontain"):
            accepted[where] = accepted.get(where, 0) | by_kind.get(what, 0)
        return accepted

    def _goal(self) -> Goal:
        goal = self.goal
        needed = {
            "pick_clean_then_place_in_recep": self._property("cleanable"),
            "pick_heat_then_place_in_recep": self._property("heatable"),
            "pick_cool_then_place_in_recep": self._property("coolable"),
        }.get(goal.task_type, -1)
        return dataclasses.replace(
            goal,
            targets=needed & self._objects(lambda thing: self.kind.get(thing) == f"{goal.target}type"),
            receptacles=self._receptacles(lambda name: self.receptacle_kind.get(name) == f"{goal.receptacle}type"),
            lamps=self._property("toggleable")
            & self._objects(lambda thing: self.kind.get(thing) == f"{goal.lamp}type"),
        )

    def _pairs(self, predicate: str) -> Iterable[tuple[str, str]]:
        return self.facts.get(predicate, {})  # type: ignore[return-value]  # _check has counted them

    def _subjects(self, predicate: str) -> set[str]:
        return {arguments[0] for arguments in self.facts.get(predicate, {})}

    def _unique(self, predicate: str) -> dict[str, str]:
        """Return the second argument by the first, of which there must be one."""
        found = dict(iter(self._pairs(predicate)))
        if len(found) != len(self.facts.get(predicate, {})):
            twice = sorted(one for one, other in self._pairs(predicate) if found[one] != other)
            raise DataError(f"pddl_problem, :init: expected one {predicate} of {twice[0]!r}, found several")
        return found

    def _objects(self, wanted: Callable[[str], bool]) -> int:
        return bit_set(number for name, number in self.objects.items() if wanted(name))

    def _receptacles(self, wanted: Callable[[str], bool]) -> int:
        return bit_set(number for name, number in self.receptacles.items() if wanted(name))

    def _property(self, predicate: str) -> int:
        return bit_set(self.objects[arguments[0]] for arguments in self.facts.get(predicate, {}))


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(sorted(names))}


def _check(facts: Facts) -> None:
    for predicate, found in facts.items():
        arity = _ARITIES.get(predicate)
        if arity is None:
            raise DataError(f"pddl_problem, :init: expected facts that the official games use, found {predicate!r}")
        for arguments in found:
            if len(arguments) != arity:
                raise DataError(
                    f"pddl_problem, :init: expected {arity} arguments of {predicate!r}, found {len(arguments)}"
                )
    if not facts.get("receptacleatlocation"):
        raise DataError("pddl_problem, :init: expected receptacles, found none")


def names_of(ids: Iterable[str]) -> dict[str, str]:
    """Return the name of each id, in the order of the ids.

    The things of a kind are numbered downwards in the order of their ids, so that lists read "cabinet 3, cabinet 2".
    An id without coordinates is a name already and gets a space at its end, as alfworld has it.
    """
    ordered = sorted(ids)
    kinds = {thing: _kind(thing) for thing in ordered if _BAR in thing}
    left = Counter(kinds.values())
    names = {}
    for thing in ordered:
        kind = kinds.get(thing)
        if kind is None:
            names[thing] = f"{thing} "
        else:
            names[thing] = f"{kind} {left[kind]}"
            left[kind] -= 1
    return names


def kind_of(name: str) -> str:
    """Return the kind in a name: ``"apple"`` of ``"apple 2"``."""
    return name.rpartition(" ")[0] or name


def _kind(thing: str) -> str:
    """Return what the part before the coordinates says; a sink's basin has its kind at the end of its id."""
    return thing.split(_BAR, 1)[0] + ("basin" if "basin" in thing else "")
