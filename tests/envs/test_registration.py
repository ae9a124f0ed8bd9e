"""Ids, the cost of the import, and specs that rebuild an env in another process."""

import subprocess
import sys
import threading
from pathlib import Path

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

import agent_r1_envs
from agent_r1_envs.registration import ENVIRONMENTS, register_environments
from tests.helpers.chat import Chat
from tests.helpers.contract import base
from tests.helpers.registered import DIRECTORY, register_directory

ROOT = Path(__file__).parents[2]


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_import_is_cheap_and_brings_nothing_heavy() -> None:
    script = """
import sys, time
start = time.process_time()
import agent_r1_envs
cost = time.process_time() - start
heavy = {"torch", "transformers", "trl", "alfworld", "textworld", "pydantic", "bs4", "rank_bm25", "httpx", "jinja2"}
print(cost, *sorted(heavy & set(sys.modules)))
"""
    costs, *heavy = zip(*(run(script).split() for _ in range(3)), strict=True)
    assert not heavy
    assert min(map(float, costs)) < 0.5


def test_the_module_form_of_an_id_registers_by_itself() -> None:
    script = "import gymnasium; print(gymnasium.make('agent_r1_envs:AgentR1/HotpotQA-v0').reset(seed=0)[1]['split'])"
    assert run(script).strip() == "train"


def test_registering_again_changes_nothing() -> None:
    specs = {environment.id: gymnasium.spec(environment.id) for environment in ENVIRONMENTS}
    register_environments()
    assert all(gymnasium.spec(name) is spec for name, spec in specs.items())


def test_public_names_are_there() -> None:
    assert set(agent_r1_envs.__all__) == set(dir(agent_r1_envs))
    for name in agent_r1_envs.__all__:
        assert getattr(agent_r1_envs, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = agent_r1_envs.nothing


def test_live_objects_are_recorded_and_never_copied() -> None:
    live = threading.Lock()  # can neither be copied nor pickled
    data = {"list": [1, 2]}
    env = Chat(gymnasium.make(register_directory(), live=[live, data]))
    assert env.spec.kwargs["live"][0] is live
    assert env.spec.kwargs["live"][1] == data and env.spec.kwargs["live"][1] is not data
    assert base(gymnasium.make(env.spec)).live[0] is live
    with pytest.raises(TypeError):
        env.spec.to_json()


def test_specs_with_an_unknown_argument_raise() -> None:
    spec = EnvSpec(DIRECTORY, entry_point="tests.helpers.directory_env:DirectoryEnv", kwargs={"nonsense": 1})
    with pytest.raises(TypeError, match="nonsense"):
        gymnasium.make(spec)
