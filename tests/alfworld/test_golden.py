"""The engine against TextWorld: recorded winning runs of the original, in both dialects, word for word."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_r1_envs.alfworld.game.engine import Engine
from agent_r1_envs.alfworld.game.scoring import is_won
from agent_r1_envs.alfworld.official.parsing import parse_game, read_game_file
from tests.data import real_data

RUNS = [f"golden_transcripts_{agent}_{dialect}" for agent in ("expert", "planner") for dialect in ("2.1.1", "2.1.3")]


def transcripts(name: str) -> list[dict[str, Any]]:
    text = (real_data("alfworld") / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def game_file(entry: dict[str, Any], dialect: str) -> Path:
    root = real_data("alfworld") / ("json_2.1.3_dialect" if dialect == "2.1.3" else "")
    inner = str(entry["gamefile"]).removeprefix("json_2.1.3_dialect/")
    return root / inner / "game.tw-pddl"


@pytest.mark.parametrize("run", RUNS)
def test_every_step_is_the_same(run: str) -> None:
    dialect = run.rpartition("_")[2]
    for entry in transcripts(run):
        game = parse_game(read_game_file(game_file(entry, dialect).read_bytes()))
        assert game.dialect == dialect
        engine = Engine(game)
        state, observation = engine.begin()
        for step in entry["steps"]:
            where = (entry["gamefile"], step["action"])
            if step["action"] is not None:
                action = engine.commands(state).get(step["action"].strip())
                observation = "Nothing happens."
                if action is not None:
                    state, observation = engine.perform(state, action)
            assert observation == step["observation"], where
            assert sorted(engine.commands(state)) == step["admissible_commands"], where
            won = is_won(game, state)
            assert (won, float(won)) == (step["won"], step["score"]), where
            assert step["done"] == won, where


def test_there_are_as_many_steps_as_there_should_be() -> None:
    entries = [entry for run in RUNS for entry in transcripts(run)]
    assert (len(entries), sum(len(entry["steps"]) for entry in entries)) == (134, 1854)
