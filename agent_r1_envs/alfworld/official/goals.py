"""Recognises the goal of a game: one of six forms, whatever the names of its variables and the order of its parts."""

from __future__ import annotations

from typing import Final

from agent_r1_envs.alfworld.game.model import Goal
from agent_r1_envs.alfworld.official.pddl import Expression
from agent_r1_envs.errors import DataError

__all__ = ["read_goal"]

Literal = tuple[str, ...]

# What a goal of each form says of objects (?o, ?o2, lamp ?t), receptacle ?r, place ?l and agent ?a, and the names that
# stand for kinds: TARGET, RECEPTACLE, LAMP.
_PUT: Final[set[Literal]] = {
    ("objecttype", "?o", "TARGET"),
    ("receptacletype", "?r", "RECEPTACLE"),
    ("inreceptacle", "?o", "?r"),
}
_FORMS: Final[dict[str, set[Literal]]] = {
    "pick_and_place_simple": _PUT,
    "pick_clean_then_place_in_recep": _PUT | {("cleanable", "?o"), ("isclean", "?o")},
    "pick_heat_then_place_in_recep": _PUT | {("heatable", "?o"), ("ishot", "?o")},
    "pick_cool_then_place_in_recep": _PUT | {("coolable", "?o"), ("iscool", "?o")},
    "pick_two_obj_and_place": _PUT
    | {("objecttype", "?o2", "TARGET"), ("inreceptacle", "?o2", "?r"), ("different", "?o", "?o2")},
    "look_at_obj_in_light": {
        ("objecttype", "?t", "LAMP"),
        ("toggleable", "?t"),
        ("istoggled", "?t"),
        ("receptacleatlocation", "?r", "?l"),
        ("atlocation", "?a", "?l"),
        ("inreceptacle", "?t", "?r"),
        ("objecttype", "?o", "TARGET"),
        ("holds", "?a", "?o"),
    },
}
_SUFFIX: Final = "type"


def read_goal(goal: Expression) -> Goal:
    """Return task type and kinds of a goal; its sets of objects are still empty.

    Raises:
        DataError: The goal has none of the six forms, as those of games with slices or movable receptacles.
    """
    literals: list[Literal] = []
    _flatten(goal, {}, literals, [0])
    found = set(literals)
    for task_type, form in _FORMS.items():
        if len(found) == len(form):
            kinds = _match(sorted(form, key=_anchored), found, {})
            if kinds is not None:
                return Goal(task_type, kinds["TARGET"], 0, kinds.get("RECEPTACLE", ""), 0, kinds.get("LAMP", ""), 0)
    raise DataError(
        "pddl_problem, :goal: expected a goal of one of the six task types, found another (games with movable "
        "receptacles or slices are not supported; backend='textworld' plays them)"
    )


def _flatten(expression: Expression, scope: dict[str, str], found: list[Literal], counter: list[int]) -> None:
    """Collect the literals of conjunctions under existential quantifiers; every quantified variable gets a new name."""
    match expression:
        case ["and", *parts]:
            for part in parts:
                _flatten(_expression(part), scope, found, counter)
        case ["exists", [*variables], body]:
            inner = dict(scope)
            for variable in variables:
                if isinstance(variable, str) and variable.startswith("?"):
                    counter[0] += 1
                    inner[variable] = f"?{counter[0]}"
            _flatten(_expression(body), inner, found, counter)
        case ["not", ["=", str(one), str(other)]]:
            found.append(("different", *sorted((scope.get(one, one), scope.get(other, other)))))
        case [str(name), *words] if name != "not" and all(isinstance(word, str) for word in words):
            found.append((name, *(scope.get(str(word), str(word)) for word in words)))
        case _:
            raise DataError(f"pddl_problem, :goal: expected 'and', 'exists' and facts, found {str(expression)[:80]}")


def _expression(part: object) -> Expression:
    if not isinstance(part, list) or not part:
        raise DataError(f"pddl_problem, :goal: expected an expression in brackets, found {str(part)[:80]}")
    return part


def _anchored(literal: Literal) -> tuple[bool, Literal]:
    """Sort what names a kind first: it leaves the fewest choices."""
    return (not literal[-1].isupper(), literal)


def _match(form: list[Literal], found: set[Literal], names: dict[str, str]) -> dict[str, str] | None:
    """Return what the names of a form stand for so that it says exactly what was found, or None.

    Two agents or places of a goal may be one in the form: a game has one agent, which is at one place.
    """
    if not form:
        return names if not found else None
    first, *rest = form
    for literal in found:
        extended = _unify(first, literal, names)
        if extended is not None:
            result = _match(rest, found - {literal}, extended)
            if result is not None:
                return result
    return None


def _unify(pattern: Literal, literal: Literal, names: dict[str, str]) -> dict[str, str] | None:
    if pattern[0] != literal[0] or len(pattern) != len(literal):
        return None
    extended = dict(names)
    for name, value in zip(pattern[1:], literal[1:], strict=True):
        if name.isupper():
            if value.startswith("?") or not value.endswith(_SUFFIX):
                return None
            value = value.removesuffix(_SUFFIX)
        elif not value.startswith("?"):
            return None
        if name != "?a" and extended.setdefault(name, value) != value:
            return None
    return extended
