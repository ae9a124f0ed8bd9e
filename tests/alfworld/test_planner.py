"""Plans are valid, win, and none is shorter: against Fast Downward's plans and against breadth-first search."""

import dataclasses
import json
import random

import pytest

from agent_r1_envs.alfworld.expert.planner import shortest_plan
from agent_r1_envs.alfworld.game.engine import Action, Engine
from agent_r1_envs.alfworld.game.model import TASK_TYPES, Game, State
from agent_r1_envs.alfworld.game.scoring import is_won
from agent_r1_envs.alfworld.generator.generator import Difficulty, generate_game
from agent_r1_envs.alfworld.official.parsing import parse_game
from tests.alfworld.games import fixture_files, raw_game
from tests.data import real_data

SMALL = Difficulty((2, 4), (0, 2), (0, 1))
IDLE = {"look", "inventory", "help", "examine", "inspect", "close", "slice"}


def replay(game: Game, state: State, plan: list[Action]) -> State:
    engine = Engine(game)
    for action in plan:
        state, _ = engine.perform(state, engine.commands(state)[engine.command(action)])
    return state


def wander(game: Game, steps: int, rng: random.Random) -> State:
    """Return a state after random commands, which seldom go elsewhere, and never win."""
    engine, state = Engine(game), game.start
    for _ in range(steps):
        commands = sorted(engine.commands(state).items())
        local = [item for item in commands if item[1].verb != "go"]
        after, _ = engine.perform(state, rng.choice(local if rng.random() < 0.6 else commands)[1])
        state = state if is_won(game, after) else after
    return state


def exists_shorter(game: Game, start: State, length: int) -> bool:
    """Search for a way to win in fewer than ``length`` commands."""
    engine = Engine(game)
    seen, frontier = {start}, [start]
    for _ in range(length - 1):
        reached = []
        for state in frontier:
            for action in engine.commands(state).values():
                if action.verb in IDLE:
                    continue
                after, _ = engine.perform(state, action)
                if is_won(game, after):
                    return True
                if after not in seen:
                    seen.add(after)
                    reached.append(after)
        frontier = reached
    return False


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_no_plan_is_shorter(task_type: str) -> None:
    rng = random.Random(task_type)
    checked = 0
    for number in range(60):
        game = generate_game("train", number, seed=5, difficulty=SMALL, task_type=task_type)
        state = wander(game, number % 12, rng)
        plan = shortest_plan(game, state)
        if plan is None:  # holding what fits nowhere
            assert not exists_shorter(game, state, 6)
        elif len(plan) <= 8:
            checked += 1
            assert not exists_shorter(game, state, len(plan))
            assert is_won(game, replay(game, state, plan))
    assert checked > 20


def test_no_plan_is_shorter_where_objects_are_in_several_receptacles() -> None:
    """As in four official games of ten: what is in a drawer is in the dresser as well, and stays there when taken."""
    rng = random.Random(0)
    checked = 0
    for number in range(240):
        game = generate_game("train", number, seed=6, difficulty=SMALL)
        contents = list(game.start.contents)
        for _ in range(3):
            contents[rng.randrange(len(contents))] |= 1 << rng.randrange(len(game.objects))
        game = dataclasses.replace(game, start=game.start._replace(contents=tuple(contents)))
        if is_won(game, game.start):
            continue
        state = wander(game, number % 40, rng)
        plan = shortest_plan(game, state)
        if plan is not None and len(plan) <= 7:
            checked += 1
            assert not exists_shorter(game, state, len(plan))
            assert is_won(game, replay(game, state, plan))
    assert checked > 100


def test_plans_are_as_long_as_those_of_fast_downward() -> None:
    path = real_data("alfworld") / "golden_transcripts_planner_2.1.1.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        game = parse_game(raw_game(real_data("alfworld") / entry["gamefile"] / "game.tw-pddl"))
        plan = shortest_plan(game, game.start)
        assert plan is not None and len(plan) == len(entry["steps"]) - 1, entry["gamefile"]


@pytest.mark.parametrize("dialect", ["2.1.1", "2.1.3"])
def test_every_fixture_is_won_from_anywhere(dialect: str) -> None:
    rng = random.Random(dialect)
    for file in fixture_files(dialect):
        game = parse_game(raw_game(file))
        for steps in (0, 5, 20):
            state = wander(game, steps, rng)
            plan = shortest_plan(game, state)
            if plan is None:
                assert state.held >= 0 and not any(accepted >> state.held & 1 for accepted in game.accepts)
                continue
            assert plan == shortest_plan(game, state), "always the same"
            assert is_won(game, replay(game, state, plan))
            for index, action in enumerate(plan):  # following it never makes it longer
                rest = shortest_plan(game, state)
                assert rest is not None and len(rest) == len(plan) - index
                state, _ = Engine(game).perform(state, action)


def test_a_won_game_needs_no_plan() -> None:
    game = generate_game("train", 0)
    plan = shortest_plan(game, game.start)
    assert plan
    assert shortest_plan(game, replay(game, game.start, plan)) == []
