"""Snapshots: as if nothing had happened, here and in another process."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformReward

from agent_r1_envs.core import AgentEnv
from agent_r1_envs.errors import ResetNeeded, SnapshotError
from agent_r1_envs.snapshots import Snapshot, restore, snapshot
from tests.helpers.chat import Chat
from tests.helpers.contract import base
from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.registered import DIRECTORY, all_ids, register_directory


class Remember(gymnasium.Wrapper):
    """A wrapper with a state, which takes part."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.actions: list[str] = []

    def step(self, action: str) -> Any:
        self.actions.append(action)
        return super().step(action)

    def get_wrapper_state(self) -> Any:
        return self.actions

    def set_wrapper_state(self, state: Any) -> None:
        self.actions = state


def make(env_id: str, **kwargs: Any) -> gymnasium.Env:
    return Chat(Remember(RecordEpisodeStatistics(gymnasium.make(env_id, **kwargs))))


def play(env: gymnasium.Env, actions: list[str]) -> list[Any]:
    """Step through actions, resetting where an episode ends, and leave out the clock."""
    seen: list[Any] = []
    for action in actions:
        result = env.step(action)
        result[4].get("episode", {}).pop("t", None)
        seen.append(result)
        if result[2] or result[3]:
            seen.append(env.reset())
    return seen


@pytest.mark.parametrize("env_id", all_ids())
def test_an_episode_goes_on_as_if_nothing_had_happened(env_id: str) -> None:
    register_directory()
    env = make(env_id)
    env.reset(seed=7)
    commands = [base(env).expert_action() or "x", "no call", *["still none"] * 2, "answer[x]"] * 2
    env.step(commands[0])
    saved = snapshot(env)
    state = base(env).get_state()
    expected = play(env, commands)
    assert snapshot(env).state != state
    for _ in range(2):
        restore(env, saved)
        assert base(env).get_state() == state
        assert play(env, commands) == expected

    fresh = make(env_id)
    restore(fresh, pickle.loads(pickle.dumps(saved)))
    assert base(fresh).get_state() == state
    assert play(fresh, commands) == expected


def test_the_states_of_all_wrappers_are_in_it() -> None:
    env = make(register_directory(), max_episode_steps=3)
    env.reset(seed=1)
    env.step("note[a]")
    saved = snapshot(env)
    play(env, ["note[b]"] * 5)
    restore(env, saved)
    assert env.get_wrapper_attr("actions") == ["note[a]"]
    assert env.get_wrapper_attr("episode_returns") == 0.125
    assert env.get_wrapper_attr("_elapsed_steps") == 1
    assert list(env.get_wrapper_attr("return_queue")) == []
    assert [env.step("note[c]")[3] for _ in range(2)] == [False, True]


def test_a_snapshot_is_not_changed_by_what_follows() -> None:
    env = make(register_directory())
    env.reset(seed=1)
    env.step("note[a]")
    saved = snapshot(env)
    frozen = pickle.dumps(saved)
    restore(env, saved)
    play(env, ["note[b]", "city[Zoë]"])
    assert pickle.dumps(pickle.loads(frozen)) == pickle.dumps(pickle.loads(pickle.dumps(saved)))
    assert saved.state["world"]["notes"] == ["a"]


def test_an_ended_episode_stays_ended() -> None:
    env = DirectoryEnv()
    env.reset()
    env.step("answer[x]")
    saved = snapshot(env)
    env.reset()
    restore(env, saved)
    with pytest.raises(ResetNeeded):
        env.step("note[a]")
    other = DirectoryEnv()
    restore(other, saved)
    assert other.last_observation == "Thank you."


@pytest.mark.parametrize("order", ["random", "shuffled", "sequential"])
def test_the_tasks_that_follow_are_the_same(order: str) -> None:
    env = DirectoryEnv(order=order, shard=(1, 2))
    env.reset(seed=3)
    env.reset()
    saved = pickle.loads(pickle.dumps(snapshot(env)))
    expected = [env.reset()[1]["task_id"] for _ in range(20)]
    other = DirectoryEnv()
    restore(other, saved)
    assert [other.reset()[1]["task_id"] for _ in range(20)] == expected


def test_another_panel_is_refused_and_nothing_changes() -> None:
    env, other = DirectoryEnv(), DirectoryEnv(people=5)
    env.reset(seed=1)
    other.reset(seed=2)
    state = other.get_state()
    with pytest.raises(SnapshotError, match="panel"):
        restore(other, snapshot(env))
    assert other.get_state() == state


def test_other_wrappers_are_refused_and_nothing_changes() -> None:
    env, other = DirectoryEnv(), TimeLimit(DirectoryEnv(), 5)
    env.reset(seed=1)
    other.reset(seed=2)
    state = base(other).get_state()
    with pytest.raises(SnapshotError, match="TimeLimit"):
        restore(other, snapshot(env))
    assert base(other).get_state() == state


class MyLimit(TimeLimit):
    """May hold whatever it likes."""


@pytest.mark.parametrize("wrap", [lambda env: TransformReward(env, abs), lambda env: MyLimit(env, 5)])
def test_wrappers_of_unknown_state_are_refused_by_name(wrap: Any) -> None:
    env = RecordEpisodeStatistics(wrap(DirectoryEnv()))
    env.reset()
    with pytest.raises(SnapshotError, match="TransformReward|MyLimit"):
        snapshot(env)


def test_before_the_first_reset_there_is_nothing_to_save() -> None:
    with pytest.raises(ResetNeeded):
        snapshot(DirectoryEnv())


def test_other_envs_are_refused() -> None:
    with pytest.raises(SnapshotError, match="CartPole"):
        snapshot(gymnasium.make("CartPole-v1"))


def test_a_snapshot_is_restored_in_a_fresh_process(tmp_path: Path) -> None:
    env = gymnasium.make(register_directory(), order="shuffled")
    env.reset(seed=11)
    env.step("note[漢]")
    saved = snapshot(env)
    (tmp_path / "saved.pickle").write_bytes(pickle.dumps(saved))
    commands = ["city[Zoë]", "answer[x]"]
    expected = [env.step(command) for command in commands] + [env.reset() for _ in range(9)]
    (tmp_path / "expected.pickle").write_bytes(pickle.dumps(expected))
    script = f"""
import pickle, sys, gymnasium
from agent_r1_envs.snapshots import restore
from tests.helpers.registered import register_directory
read = lambda name: pickle.load(open(f"{{sys.argv[1]}}/{{name}}.pickle", "rb"))
env = gymnasium.make(register_directory(), order="shuffled")
restore(env, read("saved"))
got = [env.step(command) for command in {commands!r}] + [env.reset() for _ in range(9)]
assert got == read("expected")
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=root, check=True)


def test_snapshots_are_small() -> None:
    env = gymnasium.make(DIRECTORY)
    env.reset(seed=1)
    saved = snapshot(env)
    assert isinstance(saved, Snapshot)
    assert len(pickle.dumps(saved)) < 20_000


class Worldless(DirectoryEnv):
    """Says nothing of its world."""

    _get_world = AgentEnv._get_world
    _set_world = AgentEnv._set_world


def test_an_env_that_says_nothing_of_its_world_is_told_what_to_write() -> None:
    env = Worldless()
    env.reset(seed=0)
    with pytest.raises(
        SnapshotError, match=r"Worldless has no _set_world\(\).*`def _get_world\(self\)`.*`def _set_world"
    ):
        snapshot(env)
    with pytest.raises(SnapshotError, match=r"Worldless has no _get_world\(\)"):
        env.state_key()
    Worldless._set_world = DirectoryEnv._set_world  # type: ignore[method-assign]
    with pytest.raises(SnapshotError, match=r"Worldless has no _get_world\(\)"):
        snapshot(env)
