"""What was written down before files moved still loads; the version before wrote `stored_before_the_rooms.json`."""

import base64
import importlib
import json
import pickle
from pathlib import Path
from typing import Any

import agent_r1_wrappers
import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

import agent_r1_envs
from agent_r1_envs.moved import MOVED, current_entry_points, resolve_moved

STORED: dict[str, Any] = json.loads(
    Path(__file__).with_name("stored_before_the_rooms.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", STORED["specs"])
def test_a_stored_spec_builds_what_it_named(name: str) -> None:
    stored = STORED["specs"][name]
    env = gymnasium.make(EnvSpec.from_json(json.dumps(stored)))
    assert env.reset(seed=0)
    now = json.loads(env.spec.to_json())
    assert [w["name"] for w in now["additional_wrappers"]] == [w["name"] for w in stored["additional_wrappers"]]


@pytest.mark.parametrize("env_id", STORED["snapshots"])
def test_a_stored_snapshot_goes_on(env_id: str) -> None:
    text, following = STORED["snapshots"][env_id]
    env = gymnasium.make(env_id)
    env.reset(seed=1)
    agent_r1_envs.restore(env, pickle.loads(base64.b64decode(text)))
    assert str(env.unwrapped.expert_action()) == following
    assert env.step(following)[4]["turn"] == 3


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_module_under_its_new_one(old: str) -> None:
    assert importlib.import_module(old) is importlib.import_module(MOVED[old])
    assert importlib.import_module(MOVED[old]).__spec__.name == MOVED[old]


def test_moving_twice_and_unknown_names_change_nothing() -> None:
    resolve_moved()
    assert agent_r1_wrappers.ParseTags is importlib.import_module("agent_r1_wrappers.parse_tags").ParseTags
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("agent_r1_wrappers.never_there")


def test_what_is_written_down_now_names_the_package() -> None:
    for env_id in (
        "AgentR1/HotpotQA-SearchR1-v0",
        "AgentR1/WebShop-v0",
        "AgentR1/ALFWorld-v0",
        "AgentR1/PaperSearch-v0",
    ):
        spec = json.loads(gymnasium.spec(env_id).to_json())
        points = [spec["entry_point"], *(w["entry_point"] for w in spec["additional_wrappers"])]
        for point in points:
            module, name = point.split(":")
            package = importlib.import_module(module)
            assert hasattr(package, "__path__") and name in package.__all__, point


@pytest.mark.parametrize("name", STORED["specs"])
def test_a_stored_spec_names_the_classes_of_today(name: str) -> None:
    stored = STORED["specs"][name]
    today = json.loads(gymnasium.make(EnvSpec.from_json(json.dumps(stored))).spec.to_json())

    def points(spec: dict[str, Any]) -> list[str]:
        spec = current_entry_points(spec)
        return [spec["entry_point"], *(wrapper["entry_point"] for wrapper in spec["additional_wrappers"])]

    assert points(stored) == points(today)


def test_entry_points_of_others_stay_as_they_are() -> None:
    data = [{"entry_point": "nowhere:Never", "kwargs": {"entry_point": 3}}, "agent_r1_envs.hotpotqa.env:HotpotQAEnv"]
    assert current_entry_points(data) == data
