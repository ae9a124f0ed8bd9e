"""Sixty generated games, of every split and task type, and twelve large ones; a third of them in the older dialect."""

from dataclasses import dataclass
from typing import Any

from agent_r1_envs.alfworld.export import export_game
from agent_r1_envs.alfworld.game.model import Game
from agent_r1_envs.alfworld.generator.generator import PANEL, difficulty_of, generate_game
from tests.alfworld.games import rules

COUNT = 60
LARGE = range(60, 72)
"""Games that Fast Downward may search for minutes."""


@dataclass(frozen=True)
class Generated:
    """A game, and the file that TextWorld plays."""

    game: Game
    dialect: str
    file: dict[str, Any]


def generated(number: int) -> Generated:
    split = sorted(PANEL)[number // 6 % 3]  # the task type is the number modulo 6
    difficulty = "hard" if number in LARGE else "easy" if number >= 48 else "standard"
    game = generate_game(split, number, seed=7, difficulty=difficulty_of(difficulty))
    if number % 3 == 2:
        return Generated(game, "2.1.1", export_game(game, rules("2.1.1")))
    return Generated(game, "2.1.3", export_game(game))
