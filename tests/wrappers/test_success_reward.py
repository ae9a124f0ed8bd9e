import gymnasium
import pytest
from agent_r1_wrappers import SuccessReward
from gymnasium.error import Error

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import ROOMS, ParrotEnv


def make():
    return SuccessReward(gymnasium.make(ROOMS), 10.0)


def test_replaces_the_reward():
    env = make()
    env.reset(options={"task": "cellar"})
    assert env.step("go to kitchen")[1] == 0.0
    assert env.step("go to cellar")[1] == 10.0


def test_rewards_of_steps_are_gone_and_failure_earns_nothing():
    env = SuccessReward(DirectoryEnv())
    env.reset(seed=0)
    assert env.step("note[a]")[1] == 0.0
    _, reward, terminated, _, info = env.step("answer[nowhere]")
    assert (reward, terminated, info["success"]) == (0.0, True, False)


def test_a_win_on_the_last_turn_counts_although_it_is_truncated_too():
    env = make()
    env.reset(options={"task": "cellar"})
    for _ in range(3):
        env.step("fly")
    _, reward, terminated, truncated, _ = env.step("go to cellar")
    assert terminated and truncated and reward == 10.0


def test_running_out_of_turns_earns_nothing():
    env = make()
    env.reset(options={"task": "cellar"})
    results = [env.step("fly") for _ in range(4)]
    assert [result[1] for result in results] == [0.0] * 4 and results[-1][3]


def test_needs_success():
    env = SuccessReward(ParrotEnv())
    env.reset()
    env.step("a")
    env.step("b")
    with pytest.raises(Error, match="SuccessReward needs info"):
        env.step("c")
