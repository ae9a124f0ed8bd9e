"""All 3,553 official training games load, and the planner's plans win them."""

from collections import Counter
from pathlib import Path

import pytest

from agent_r1_envs.alfworld.expert.planner import shortest_plan
from agent_r1_envs.alfworld.game.engine import Engine
from agent_r1_envs.alfworld.game.scoring import is_won
from agent_r1_envs.alfworld.sources import load_tasks
from tests.data import real_data

COUNTS = {
    "pick_and_place_simple": 790,
    "look_at_obj_in_light": 308,
    "pick_clean_then_place_in_recep": 650,
    "pick_heat_then_place_in_recep": 459,
    "pick_cool_then_place_in_recep": 533,
    "pick_two_obj_and_place": 813,
}


@pytest.mark.slow
def test_every_training_game_is_won(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path))
    tasks = load_tasks("train", real_data("alfworld") / "json_2.1.1_train_3553.tar.xz", skip=())
    assert list(tasks.ids) == sorted(tasks.ids)
    assert Counter(task.task_type for task in tasks) == COUNTS
    longest = 0
    for task in tasks:
        game = task.load().game
        engine, state = Engine(game), game.start
        plan = shortest_plan(game, state)
        assert plan, task.id
        longest = max(longest, len(plan))
        for action in plan:
            assert not is_won(game, state)
            state, _ = engine.perform(state, engine.commands(state)[engine.command(action)])
        assert is_won(game, state), task.id
    assert longest == 10
