import pytest
from agent_r1_wrappers import ExplainInvalid, ParseTags

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import ParrotEnv, RoomsEnv


def test_says_why():
    env = ExplainInvalid(RoomsEnv())
    env.reset(seed=0)
    assert env.step("fly")[0] == "Nothing happens.\nInvalid action: there is no command 'fly'"
    assert env.step("go to hall")[0].startswith("Nothing happens.\n")
    assert env.step("go to kitchen")[0] == "You are in the kitchen."


def test_explains_replies_that_a_format_refused():
    env = ExplainInvalid(ParseTags(ParrotEnv()), template="({reason})")
    env.reset()
    assert env.step("a")[0] == "It says: A\n(there is no <action>...</action> in the reply)"


def test_says_nothing_twice():
    env = ExplainInvalid(ParseTags(DirectoryEnv()))
    env.reset(seed=0)
    observation, *_, info = env.step("a")
    assert observation.count(info["invalid_action"]) == 1


def test_the_space_has_room():
    env = ExplainInvalid(ParrotEnv())
    env.reset()
    assert env.observation_space.max_length > env.env.observation_space.max_length + 500


def test_refuses():
    with pytest.raises(ValueError, match="reason"):
        ExplainInvalid(RoomsEnv(), template="bad")
