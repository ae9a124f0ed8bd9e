"""``backend="textworld"`` gives the same episodes as the engine, and more games."""

import json
import random
import sys
import threading
from pathlib import Path

import gymnasium
import pytest

from agent_r1_envs import restore, snapshot
from agent_r1_envs.alfworld import load_tasks
from agent_r1_envs.alfworld.env import ALFWorldEnv
from agent_r1_envs.alfworld.export import export_panel
from agent_r1_envs.alfworld.game.model import TASK_TYPES
from agent_r1_envs.errors import DataError
from tests.alfworld.games import fixture_files, raw_game
from tests.alfworld_textworld.walking import drawn
from tests.data import real_data
from tests.helpers.contract import check_reset, check_step

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path / "cache"))


def pair(split="valid_seen", **kwargs):
    return [ALFWorldEnv(split, backend=backend, **kwargs) for backend in ("engine", "textworld")]


def compare(engine, original, task, rng, turns=25):
    """Walk, then win, in both envs, and compare all they return."""
    results = [env.reset(options={"task": task}) for env in (engine, original)]
    protocols = [info.pop("protocol") for _, info in results]
    assert results[0] == results[1]
    assert {name for name in protocols[0] if protocols[0][name] != protocols[1][name]} <= {"backend", "panel_hash"}
    terminated = False
    while not terminated:
        info = results[0][-1]
        action = drawn(info["admissible_actions"], rng) if engine.turn < turns else engine.expert_action()
        assert original.expert_action() == engine.expert_action()
        results = [env.step(action) for env in (engine, original)]
        assert results[0] == results[1], action
        terminated = results[0][2]
    assert results[0][-1]["success"]


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_official_episodes_are_the_same(task_type):
    data = str(real_data("alfworld") / "json_2.1.1")
    engine, original = pair("valid_unseen", data=data, task_types=[task_type])
    assert engine.tasks.ids == original.tasks.ids
    assert [task.task_type for task in original.tasks] == [task_type] * len(engine.tasks)
    compare(engine, original, 0, random.Random(task_type))


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_embedded_episodes_are_the_same(task_type):
    options = {"reward": "goal_conditions", "show_admissible": True, "show_help": True, "lenient": True}
    engine, original = pair("test", games=3, games_seed=2, task_types=[task_type], **options)
    assert engine.tasks.ids == original.tasks.ids
    compare(engine, original, 2, random.Random(task_type))


def test_splits_have_the_same_games_in_the_same_order():
    for split in ("valid_seen", "valid_unseen"):
        engine, original = pair(split, data=str(real_data("alfworld") / "json_2.1.1"))
        assert engine.tasks.ids == original.tasks.ids and len(engine.tasks) > 10


def test_the_contract_holds():
    env = gymnasium.make("AgentR1/ALFWorld-v0", split="test", games=6, backend="textworld")
    check_reset(env, seed=3)
    for action in ("look", "inventory", "", "go to the moon", "\ud800", "x" * 20_000, 7, "help"):
        check_step(env, action)
    assert env.unwrapped.turn == 8


def test_the_limit_truncates():
    env = gymnasium.make("AgentR1/ALFWorld-v0", split="test", games=1, backend="textworld", max_episode_steps=3)
    env.reset()
    assert [env.step("look")[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_snapshots():
    env = gymnasium.make("AgentR1/ALFWorld-v0", split="test", games=6, backend="textworld")
    env.reset(options={"task": 2})
    for _ in range(3):
        env.step(env.unwrapped.expert_action())
    saved = snapshot(env)

    def rest():
        results = []
        while not results or not results[-1][2]:
            results.append(env.step(env.unwrapped.expert_action()))
        return results

    expected = rest()
    assert expected[-1][-1]["success"]
    env.reset(options={"task": 3})
    restore(env, saved)
    assert rest() == expected


def test_games_that_the_engine_refuses_are_played(tmp_path):
    file = changed(tmp_path, "You close the {r.name}.", "You shut the {r.name}.")
    with pytest.raises(DataError, match="backend='textworld'"):
        ALFWorldEnv("valid_seen", data=str(file), skip=())
    env = ALFWorldEnv("valid_seen", data=str(file), backend="textworld")
    _, info = env.reset()
    assert info["task_type"] in TASK_TYPES and info["protocol"]["dialect"] == "unknown"
    assert info["instruction"].endswith(".") and env.expert_action() is None
    openable = next(
        name for name in ("cabinet", "drawer", "fridge", "microwave", "safe") if name in env.last_observation
    )
    env.step(next(command for command in info["admissible_actions"] if command.startswith(f"go to {openable}")))
    for verb, said in (("open", "You open the"), ("close", "You shut the")):
        command = next(command for command in env.step("look")[-1]["admissible_actions"] if command.startswith(verb))
        observation, _, _, _, info = env.step(command)
        assert observation.startswith(said) and "invalid_action" not in info
    info = env.step("fly")[-1]
    assert info["invalid_action"] == "no such command is possible now"
    assert info["reward_info"]["goal_condition_success"] == 0.0


def changed(folder, old, new):
    raw = raw_game(fixture_files("2.1.3")[0])
    assert old in raw["grammar"]
    raw["grammar"] = raw["grammar"].replace(old, new)
    file = folder / fixture_files("2.1.3")[0].parents[1].name / "trial" / "game.tw-pddl"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(raw))
    return file


def test_an_exported_panel_is_the_same_from_files(tmp_path: Path):
    tasks = load_tasks("valid_seen", games=6)
    export_panel(tasks, tmp_path)
    embedded = ALFWorldEnv("valid_seen", games=6)
    for env in pair(data=str(tmp_path)):
        assert len(env.tasks) == 6
        for name in env.tasks.ids[::5]:
            observation, info = env.reset(options={"task": name})
            number = embedded.tasks.ids.index(name.split("/")[-1])
            expected, embedded_info = embedded.reset(options={"task": number})
            assert (observation, info["admissible_actions"]) == (expected, embedded_info["admissible_actions"])
            assert info["task_type"] == embedded_info["task_type"]


def test_threads_wait_for_each_other_and_the_process_stays_as_it_was():
    arguments, won = list(sys.argv), []

    def play(task):
        env = ALFWorldEnv("test", games=3, backend="textworld")
        env.reset(options={"task": task})
        terminated = False
        while not terminated:
            terminated = env.step(env.expert_action())[2]
        won.append(task)

    threads = [threading.Thread(target=play, args=(task,)) for task in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [0, 1, 2] and sys.argv == arguments
