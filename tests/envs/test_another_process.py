"""What another process, with other hashes of strings, makes of specs, seeds and states: all that this one does."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from tests.helpers.chat import Chat
from tests.helpers.registered import DIRECTORY, all_ids

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
from gymnasium.envs.registration import EnvSpec
from tests.envs.test_another_process import rebuilt, seeded, states
print(json.dumps([[rebuilt(spec) for spec in json.loads(sys.argv[1])], seeded(), states()]))
"""


def rebuilt(spec: str) -> list[Any]:
    env = gymnasium.make(EnvSpec.from_json(spec))
    observation, info = env.reset(seed=9)
    return [str(env), env.spec.to_json(), observation, info, env.step("city[Zoë]")]


def seeded() -> list[list[str]]:
    """What episodes say, and the hashes of panels."""
    found = []
    for env_id in all_ids():
        for order in ("random", "shuffled"):
            env = gymnasium.make(env_id, order=order)
            digest = hashlib.sha256(repr(env.reset(seed=5)).encode())
            for _ in range(3):
                command = env.unwrapped.expert_action()
                digest.update(repr((command, env.step(command), env.reset())).encode())
            found.append([env_id, order, env.unwrapped.tasks.content_hash, digest.hexdigest()])
    return found


def states() -> list[str]:
    from tests.envs.test_state_key import IDS, key, two_ways

    return [key(name, two_ways(name)[0]) for name in IDS]


def specs() -> list[str]:
    made = [gymnasium.make(env_id, order="shuffled", shard=(1, 3), max_episode_steps=4) for env_id in all_ids()]
    return [Chat(env, system="Salut").spec.to_json() for env in made]


@pytest.fixture(scope="module")
def there() -> list[Any]:
    salt = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(specs())],
        cwd=ROOT,
        env={"PYTHONHASHSEED": salt, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return json.loads(run.stdout)


def test_a_spec_rebuilds_env_and_wrappers(there: list[Any]) -> None:
    found = there[0]
    assert len(found) == len(all_ids())
    for spec, theirs in zip(specs(), found, strict=True):
        ours = json.loads(json.dumps(rebuilt(spec)))
        assert ours[1] == spec
        if DIRECTORY in spec:  # which only this process has registered
            del ours[3]["protocol"]["turns"]
        assert theirs == ours


def test_seeding_is_the_same(there: list[Any]) -> None:
    """No `hash()`, no order of a set: the salt of the interpreter must not matter."""
    assert there[1] == seeded()
    assert len(there[1]) == 2 * len(all_ids())


def test_states_have_the_same_keys(there: list[Any]) -> None:
    assert there[2] == states() and len(set(there[2])) == len(there[2])
