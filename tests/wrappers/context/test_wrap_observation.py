from agent_r1_wrappers import WrapObservation

from tests.helpers.text_envs import ParrotEnv


def test_frames_what_the_env_answers():
    env = WrapObservation(ParrotEnv(), before="<information>", after="</information>")
    assert env.reset()[0] == "Say something."
    assert env.step("a")[0] == "<information>It says: A</information>"
    assert env.observation_space.max_length == 300 + len("<information></information>")


def test_and_what_it_says_first():
    assert WrapObservation(ParrotEnv(), before="> ", first=True).reset()[0] == "> Say something."
