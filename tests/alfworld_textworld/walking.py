"""Walks the engine and TextWorld side by side."""

import random
from collections.abc import Iterator
from typing import Any

from agent_r1_envs.alfworld.session import EngineSession
from agent_r1_envs.alfworld.texts import NOTHING_HAPPENS
from tests.alfworld_textworld.original import Original

STEPS = 40


def walk(session: EngineSession, original: Original, game: dict[str, Any], rng: random.Random) -> bool:
    """Walk at random, then the shortest way to a win, and compare all there is after each step; return whether won.

    Every tenth command is none. The others are drawn by verb first, since most that are possible are ways.
    """
    state = original.begin(game)
    assert session.intro == state["feedback"]
    assert session.commands() == state["admissible_commands"]
    assert session.won is state["won"] is False
    for command in commands(session, rng):
        feedback = session.act(command)
        state, score, done = original.step(command)
        assert (NOTHING_HAPPENS if feedback is None else feedback) == state["feedback"], command
        assert session.commands() == state["admissible_commands"], command
        assert (session.won, int(session.won), session.won) == (state["won"], score, done), command
    return session.won


def commands(session: EngineSession, rng: random.Random) -> Iterator[str]:
    for _ in range(STEPS):
        if session.won:
            return
        yield drawn(session.commands(), rng)
    while not session.won:
        command = session.expert_command()
        if command is None:
            return
        yield command


def drawn(possible: list[str], rng: random.Random) -> str:
    if rng.random() < 0.1:
        text = rng.choice(possible)
        return rng.choice(["", text.upper(), text[:-1], f"{text} 1", text.replace(" ", "  ", 1), "go to nowhere 1"])
    verb = rng.choice(sorted({command.split()[0] for command in possible}))
    return rng.choice([command for command in possible if command.split()[0] == verb])
