"""Walks the engine and TextWorld side by side."""

import random
import re
from typing import Any

from agent_r1_envs.alfworld.game.texts import NOTHING_HAPPENS
from agent_r1_envs.alfworld.session import EngineSession
from tests.alfworld_textworld.original import Original

STEPS = 40


def walk(session: EngineSession, original: Original, game: dict[str, Any], rng: random.Random) -> None:
    """Walk at random, then the shortest way to a win, and compare all there is after each step.

    Every tenth command is none. The others are drawn by verb first, since most that are possible are ways.
    """
    begin(session, original, game)
    for _ in range(STEPS):
        if session.won:
            break
        step(session, original, drawn(session.commands(), rng))
    if not session.won and session.expert_command() is None:
        check_dead_end(session, game)
        begin(session, original, game)
    while not session.won:
        command = session.expert_command()
        assert command is not None
        step(session, original, command)


def begin(session: EngineSession, original: Original, game: dict[str, Any]) -> None:
    session.restart()
    state = original.begin(game)
    assert session.intro == state["feedback"]
    assert session.commands() == state["admissible_commands"]
    assert session.won is state["won"] is False


def step(session: EngineSession, original: Original, command: str) -> None:
    feedback = session.act(command)
    state, score, done = original.step(command)
    assert (NOTHING_HAPPENS if feedback is None else feedback) == state["feedback"], command
    assert session.commands() == state["admissible_commands"], command
    assert (session.won, int(session.won), session.won) == (state["won"], score, done), command


def check_dead_end(session: EngineSession, game: dict[str, Any]) -> None:
    """The planner gives up only where something is held that no receptacle of the game takes."""
    held = re.fullmatch(r"You are carrying: a ([a-z]+) \d+\.", session.act("inventory") or "")
    assert held is not None and re.search(r"\(canContain \w+ \w+Type\)", game["pddl_problem"])
    assert re.search(rf"\(canContain \w+ {held[1]}Type\)", game["pddl_problem"], re.IGNORECASE) is None


def drawn(possible: list[str], rng: random.Random) -> str:
    if rng.random() < 0.1:
        text = rng.choice(possible)
        return rng.choice(["", text.upper(), text[:-1], f"{text} 1", text.replace(" ", "  ", 1), "go to nowhere 1"])
    verb = rng.choice(sorted({command.split()[0] for command in possible}))
    return rng.choice([command for command in possible if command.split()[0] == verb])
