"""Reads the problem of a game file: declared objects, initial facts and the goal, as plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from agent_r1_envs.errors import DataError

__all__ = ["Expression", "Facts", "Problem", "read_problem"]

Expression = list[Any]
"""A list whose items are lower-case words and expressions."""

Facts = dict[str, dict[tuple[str, ...], None]]
"""For each predicate the arguments of its facts, without duplicates and in the order of the file."""

# A list of words is one token, because nearly all of a problem is flat facts.
_TOKEN: Final = re.compile(r"\(([^()]*)\)|([()])|([^\s()]+)")
_COMMENT: Final = re.compile(r";[^\n]*")
_DEPTH: Final = 32


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem.

    Attributes:
        agents: The objects of type ``agent``.
        facts: The initial facts.
        goal: The goal.
    """

    agents: tuple[str, ...]
    facts: Facts
    goal: Expression


def read_problem(text: str) -> Problem:
    """Read a problem; case does not matter, and everything comes back in lower case.

    Raises:
        DataError: The text is no problem; the message says what was expected.
    """
    whole = _read(text)
    if not whole or whole[0] != "define":
        raise DataError("pddl_problem: expected (define (problem ...) ...)")
    named = [part for part in whole[1:] if isinstance(part, list) and part and isinstance(part[0], str)]
    sections = {section[0]: section for section in named}
    for name in (":objects", ":init", ":goal"):
        if name not in sections:
            raise DataError(f"pddl_problem: expected a section ({name} ...), found none")
    goal = sections[":goal"]
    if len(goal) != 2 or not isinstance(goal[1], list):
        raise DataError("pddl_problem, :goal: expected one expression")
    return Problem(_agents(sections[":objects"]), _facts(sections[":init"]), goal[1])


def _read(text: str) -> Expression:
    stack: list[Expression] = [[]]
    for match in _TOKEN.finditer(_COMMENT.sub("", text).lower()):
        words, bracket, word = match.groups()
        if words is not None:
            stack[-1].append(words.split())
        elif word is not None:
            stack[-1].append(word)
        elif bracket == "(":
            stack.append([])
            if len(stack) > _DEPTH:
                raise DataError(f"pddl_problem: expected at most {_DEPTH} nested brackets")
        elif len(stack) == 1:
            raise DataError("pddl_problem: expected balanced brackets, found a ')' too many")
        else:
            done = stack.pop()
            stack[-1].append(done)
    if len(stack) != 1:
        raise DataError("pddl_problem: expected balanced brackets, found the end of the text")
    if len(stack[0]) != 1 or not isinstance(stack[0][0], list):
        raise DataError("pddl_problem: expected one expression in brackets")
    return stack[0][0]


def _agents(section: Expression) -> tuple[str, ...]:
    """Return the names of type ``agent`` out of ``a b - type c - type``."""
    words = section[1:]
    if list in map(type, words):
        raise DataError("pddl_problem, :objects: expected names and types, found a bracket")
    agents: list[str] = []
    start = 0
    for dash in [index for index, word in enumerate(words) if word == "-"]:
        if words[dash + 1 : dash + 2] == ["agent"]:
            agents += words[start:dash]
        start = dash + 2
    return tuple(agents)


def _facts(section: Expression) -> Facts:
    facts: Facts = {}
    for fact in section[1:]:
        if not isinstance(fact, list) or not fact or not isinstance(fact[0], str):
            raise DataError(f"pddl_problem, :init: expected a fact in brackets, found {_shown(fact)}")
        if fact[0] == "=":  # distances, which nothing uses
            continue
        if list in map(type, fact):
            raise DataError(f"pddl_problem, :init: expected a flat fact, found {_shown(fact)}")
        facts.setdefault(fact[0], {})[tuple(fact[1:])] = None
    return facts


def _shown(value: object) -> str:
    return repr(value)[:120]
