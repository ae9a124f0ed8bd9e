"""The explorer knows what the texts have shown, and nothing else."""

import dataclasses
import random

from agent_r1_envs.alfworld.expert.explorer import Notes, explore, noted
from agent_r1_envs.alfworld.game.engine import Engine
from agent_r1_envs.alfworld.game.model import Game, members
from agent_r1_envs.alfworld.game.scoring import is_won
from agent_r1_envs.alfworld.generator.generator import DIFFICULTIES, generate_game
from agent_r1_envs.alfworld.official.parsing import parse_game
from tests.alfworld.games import fixture_files, raw_game


def play(game: Game, limit: int = 200) -> list[tuple[str, str]]:
    """Return the commands of the explorer, each with the text that it answers."""
    engine = Engine(game)
    state, text = engine.begin()
    notes, turns = Notes(), []
    while not is_won(game, state) and len(turns) < limit:
        action = explore(engine, state, notes)
        assert action is not None
        command = engine.command(action)
        turns.append((text, command))
        state, text = engine.perform(state, engine.commands(state)[command])
        notes = noted(notes, game, state, action)
    assert is_won(game, state)
    return turns


def shuffled(game: Game, rng: random.Random) -> Game:
    """Return a household that looks the same from outside: other contents, and other places shared."""
    contents, start = [0] * len(game.receptacles), game.start
    for thing in members((1 << len(game.objects)) - 1):
        fitting = [r for r, accepted in enumerate(game.accepts) if accepted >> thing & 1]
        goals = game.goal.receptacles if game.goal.targets >> thing & 1 else 0
        where = [r for r in fitting if not goals >> r & 1] or [
            next(r for r, inside in enumerate(start.contents) if inside >> thing & 1)
        ]
        contents[rng.choice(where)] |= 1 << thing
    return dataclasses.replace(game, start=start._replace(contents=tuple(contents)))


def test_it_wins_every_kind_of_game() -> None:
    for number in range(120):
        play(generate_game("valid_unseen", number, difficulty=DIFFICULTIES["easy" if number % 2 else "standard"]))


def test_it_wins_the_fixtures_mostly_in_time() -> None:
    lengths = [len(play(parse_game(raw_game(file)))) for file in fixture_files()]
    assert sum(length <= 50 for length in lengths) >= 33


def test_what_it_does_depends_on_what_was_shown_alone() -> None:
    """Two households with the same outside: as long as the texts are the same, so are the commands."""
    rng = random.Random(0)
    differences = 0
    for number in range(120):
        game = generate_game("train", number, seed=3)
        one, other = play(game), play(shuffled(game, rng))
        for (text, command), (other_text, other_command) in zip(one, other, strict=False):
            if text != other_text:
                differences += 1
                break
            assert command == other_command, number
    assert differences > 80


def test_it_takes_longer_than_one_who_knows() -> None:
    turns = [len(play(generate_game("train", number))) for number in range(60)]
    assert 8 < sum(turns) / len(turns) < 25
