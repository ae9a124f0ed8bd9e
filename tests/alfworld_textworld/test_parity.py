"""Random walks show no difference between the engine and TextWorld."""

import json
import random

import pytest

from agent_r1_envs.alfworld.official.parsing import parse_game
from agent_r1_envs.alfworld.session import EngineSession
from tests.alfworld.games import fixture_files, raw_game
from tests.alfworld_textworld.games import COUNT, LARGE, generated
from tests.alfworld_textworld.original import Original
from tests.alfworld_textworld.walking import walk

FIXTURES = 36


def test_there_are_as_many_games_as_there_should_be() -> None:
    assert len(fixture_files("2.1.1")) == len(fixture_files("2.1.3")) == FIXTURES


@pytest.mark.parametrize("number", range(FIXTURES))
def test_official_games_on_textworld_as_it_is(number: int, original: Original) -> None:
    compare("2.1.1", number, original)


@pytest.mark.parametrize("number", range(FIXTURES))
def test_official_games_in_the_other_dialect(number: int, quick: Original) -> None:
    compare("2.1.3", number, quick)


def compare(dialect: str, number: int, original: Original) -> None:
    game = raw_game(fixture_files(dialect)[number])
    walk(EngineSession(parse_game(game)), original, game, random.Random(f"{dialect} {number}"))


@pytest.mark.parametrize("number", range(COUNT))
def test_generated_games_on_textworld_as_it_is(number: int, original: Original) -> None:
    compare_generated(number, original)


@pytest.mark.parametrize("number", LARGE)
def test_large_generated_games(number: int, quick: Original) -> None:
    compare_generated(number, quick)


def compare_generated(number: int, original: Original) -> None:
    made = generated(number)
    walk(EngineSession(made.game, made.dialect), original, json.loads(json.dumps(made.file)), random.Random(number))
