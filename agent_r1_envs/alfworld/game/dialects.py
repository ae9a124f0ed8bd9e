"""The two dialects of the official games, and how a game file's is recognised.

A game file brings its own rules (PDDL) and texts (a grammar that TextWorld *evaluates as Python*). Neither is run here.
Both are compared by fingerprint with those that the engine knows; a file with any other is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from agent_r1_envs.errors import DataError

__all__ = ["DIALECTS", "Dialect", "DialectName", "TASK_PREFIX", "recognise"]

DialectName = Literal["2.1.1", "2.1.3"]

TASK_PREFIX: Final = "Your task is to: "

_HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words in which a game talks.

    Attributes:
        name: Version of the games that talk so.
        put: Template of the command that puts the ``{object}`` somewhere, the ``{receptacle}``.
        put_feedback: What the game says then.
        arrives_at_place: Whether an arrival names the place (``loc 12``) instead of the receptacle.
        help: What the command ``help`` shows, ``""`` where there is no such command.
    """

    name: DialectName
    put: str
    put_feedback: str
    arrives_at_place: bool
    help: str


DIALECTS: Final[dict[str, Dialect]] = {
    "2.1.1": Dialect(
        "2.1.1",
        put="put {object} in/on {receptacle}",
        put_feedback="You put the {object} in/on the {receptacle}.",
        arrives_at_place=True,
        help="",
    ),
    "2.1.3": Dialect(
        "2.1.3",
        put="move {object} to {receptacle}",
        put_feedback="You move the {object} to the {receptacle}.",
        arrives_at_place=False,
        help=_HELP,
    ),
}
"""By name: ``2.1.1`` is that of AgentBench, ReAct and AgentGym, ``2.1.3`` that of alfworld 0.4 and later."""

assert set(DIALECTS) == set(get_args(DialectName))

# Fingerprints of the rules, and of the grammar without its task.
_KNOWN: Final[dict[tuple[str, str], DialectName]] = {
    (
        "2bb2c5c7591ba4452d38c74721bd09a10c9d72c9ec3f5b2fb7cd8f9b57ae6a64",
        "d25955e79bac7acc5445530ab486f14bad5cf3c88859a3c817f3a14a89e4c14b",
    ): "2.1.1",
    (
        "da18d44ab1bcf831f61e90b88a99ad5766d8bbb562b6f87839b4b6ace4f796fe",
        "b0f31136afc95e37805d7488fee23947a2079fd48e5a9f1387940a8759f37620",
    ): "2.1.3",
}
_TASK: Final = re.compile(r'"task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*("(?:[^"\\]|\\.)*")')
_MARKUP: Final = re.compile(r"[{}\[\]#|\\]")


def recognise(domain: str, grammar: str) -> tuple[DialectName, str]:
    """Return the dialect of a game file, and the task that its grammar tells (without "Your task is to: ").

    Args:
        domain: The text of ``pddl_domain``.
        grammar: The text of ``grammar``.

    Raises:
        DataError: The rules or the grammar are not those of a known dialect, or the task holds markup, which TextWorld
            would run as code.
    """
    match = _TASK.search(grammar)
    if match is None:
        raise DataError("grammar: expected a rule 'task', found none")
    rest = grammar[: match.start(1)] + grammar[match.end(1) :]
    dialect = _KNOWN.get((fingerprint(_plain_rules(domain)), fingerprint(rest)))
    if dialect is None:
        raise DataError(
            "pddl_domain and grammar: expected those of the official games, dialect 2.1.1 or 2.1.3, found others; "
            "backend='textworld' plays any game, but runs the code that its grammar holds"
        )
    try:
        task = json.loads(match[1])
    except ValueError as error:
        raise DataError(f"grammar, rule 'task': expected a text, found bad JSON: {error}") from None
    if _MARKUP.search(task):
        raise DataError(f"grammar, rule 'task': expected plain text, found markup, which TextWorld would run: {task!r}")
    if not task.startswith(TASK_PREFIX):
        raise DataError(f"grammar, rule 'task': expected a text that begins with {TASK_PREFIX!r}, found {task!r}")
    return dialect, task.removeprefix(TASK_PREFIX)


def fingerprint(text: str) -> str:
    """Return the SHA-256 of a text whose line ends do not matter."""
    lines = (line.rstrip() for line in text.strip().split("\n"))
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _plain_rules(domain: str) -> str:
    """Return a PDDL text without what means nothing in it: comments, case and spacing."""
    return " ".join(re.sub(r";[^\n]*", "", domain).lower().split())
