import gymnasium
import pytest
from agent_r1_wrappers import SuccessBonus
from gymnasium.error import Error

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import ParrotEnv


def test_adds_to_the_reward_at_the_end():
    env = SuccessBonus(DirectoryEnv(), 5.0)
    env.reset(seed=0)
    assert env.step("note[a]")[1] == 0.125
    assert env.step(env.unwrapped.expert_action())[1] == 0.0
    assert env.step(env.unwrapped.expert_action())[1] == 6.0


def test_success_in_the_middle_earns_nothing_and_at_the_limit_the_bonus():
    class Truncating(gymnasium.Wrapper):
        def step(self, action):
            observation, reward, _, _, info = self.env.step(action)
            return observation, reward, False, reward == 2.0, {**info, "success": True}

    env = SuccessBonus(Truncating(ParrotEnv()), 5.0)
    env.reset()
    assert [env.step("a")[1] for _ in range(2)] == [1.0, 7.0]


def test_needs_success():
    env = SuccessBonus(ParrotEnv())
    env.reset()
    env.step("a")
    env.step("b")
    with pytest.raises(Error, match="SuccessBonus needs info"):
        env.step("c")
