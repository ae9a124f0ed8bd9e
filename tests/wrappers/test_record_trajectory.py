import json
import os
import threading

import gymnasium
import numpy as np
import pytest
from agent_r1_wrappers import AppendHistory, ParseTags, RecordTrajectory, TruncateHistory, read_trajectories

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import ROOMS, ParrotEnv


def test_an_episode_is_a_line(tmp_path):
    env = RecordTrajectory(ParseTags(gymnasium.make(ROOMS)), tmp_path / "runs")
    first, _ = env.reset(seed=3, options={"task": "cellar"})
    assert not (tmp_path / "runs").exists(), "nothing is made before an episode ends"
    env.step("hm")
    env.step("<action>go to cellar</action>")
    (line,) = env.path.read_text().splitlines()
    record = json.loads(line)
    assert [record] == list(read_trajectories(tmp_path / "runs"))
    reason = "there is no <action>...</action> in the reply"
    assert record == {
        "env_id": "Texts/Rooms-v0", "seed": 3, "task_id": "cellar", "split": "test", "dataset": "synthetic",
        "instruction": "go to the cellar.", "first_observation": first, "return": 1.0, "success": True, "score": 1.0,
        "reward_info": {"there": 1.0}, "end": "terminated",
        "turns": [
            {"reply": "hm", "invalid_action": reason, "observation": "Nothing happens.", "reward": 0.0},
            {"reply": "<action>go to cellar</action>", "action": "go to cellar",
             "observation": "You are in the cellar.", "reward": 1.0},
        ],
    }  # fmt: skip


def test_ends(tmp_path):
    env = RecordTrajectory(gymnasium.make(ROOMS), tmp_path)
    env.reset(seed=0)
    env.reset(seed=0)  # no turn was played: no line
    for _ in range(4):
        env.step("fly")
    env.reset(seed=0)
    env.step("fly")
    env.reset(seed=0)
    env.step("fly")
    env.close()
    env.close()
    assert [record["end"] for record in read_trajectories(tmp_path)] == ["truncated", "abandoned", "abandoned"]


def test_of_growing_conversations_only_the_new_messages_are_written(tmp_path):
    env = RecordTrajectory(AppendHistory(ParrotEnv(), system="s"), tmp_path)
    env.reset()
    for reply in "abc":
        messages, *_ = env.step(reply)
    (record,) = read_trajectories(tmp_path)
    assert len(record["first_observation"]) == 2
    assert all(turn["extends"] and len(turn["observation"]) == 2 for turn in record["turns"])
    assert record["first_observation"] + [m for turn in record["turns"] for m in turn["observation"]] == messages


def test_of_rewritten_conversations_everything_is_written(tmp_path):
    env = RecordTrajectory(TruncateHistory(AppendHistory(ParrotEnv()), turns=1), tmp_path)
    env.reset()
    shown = [env.step(reply)[0] for reply in "abc"]
    (record,) = read_trajectories(tmp_path)
    assert ["extends" in turn for turn in record["turns"]] == [True, False, False]
    assert [turn["observation"] for turn in record["turns"][1:]] == shown[1:]


def test_calls_and_values_that_are_no_json(tmp_path):
    class Odd(gymnasium.Wrapper):
        def step(self, action):
            observation, _, *rest, info = self.env.step(action)
            return observation, np.float32(0.5), *rest, {**info, "score": np.float64(0.5), "calls": [{1}, np.ones(2)]}

    env = RecordTrajectory(Odd(DirectoryEnv()), tmp_path)
    env.reset(seed=0)
    env.step("a\ud800\n")
    env.close()
    (record,) = read_trajectories(tmp_path)
    assert (record["score"], record["return"], record["env_id"]) == (0.5, 0.5, "DirectoryEnv")
    assert record["turns"][0]["calls"] == ["{1}", [1.0, 1.0]] and record["turns"][0]["reply"] == "a\ud800\n"


def test_a_line_that_was_cut_short_is_skipped_and_not_continued(tmp_path):
    env = RecordTrajectory(ParrotEnv(), tmp_path)
    env.path.write_text('{"env_id": "torn')
    env.reset()
    env.step("a")
    env.close()
    (record,) = read_trajectories(tmp_path)
    assert record["turns"][0]["reply"] == "a"
    assert len(env.path.read_text().splitlines()) == 2


def test_several_envs_of_a_process_share_a_file(tmp_path):
    def play(number):
        env = RecordTrajectory(ParrotEnv(), tmp_path)
        for _ in range(20):
            env.reset()
            for _ in range(3):
                env.step(str(number) * 200)

    threads = [threading.Thread(target=play, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == 1
    assert len(list(read_trajectories(tmp_path))) == 80


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is not known here")
def test_a_fork_writes_its_own_file_and_a_killed_process_leaves_what_it_did(tmp_path):
    env = RecordTrajectory(ParrotEnv(), tmp_path)
    env.reset()
    env.step("before")
    child = os.fork()
    if child == 0:
        env.step("child")
        env.step("child")  # the episode ends, and is written
        env.reset()
        env.step("lost")
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    env.step("parent")
    env.step("parent")
    records = list(read_trajectories(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2
    assert sorted(record["turns"][1]["reply"] for record in records) == ["child", "parent"]


def test_state(tmp_path):
    env = RecordTrajectory(AppendHistory(ParrotEnv()), tmp_path)
    assert env.get_wrapper_state().episode is None
    env.reset()
    env.step("a")
    state = env.get_wrapper_state()
    env.step("b")
    env.set_wrapper_state(state)
    env.close()
    (record,) = read_trajectories(tmp_path)
    assert [turn["reply"] for turn in record["turns"]] == ["a"]
