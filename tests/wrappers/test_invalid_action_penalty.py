import pytest
from agent_r1_wrappers import InvalidActionPenalty, ParseTags

from tests.helpers.text_envs import ParrotEnv, RoomsEnv


def test_charges_for_invalid_actions_only():
    env = InvalidActionPenalty(RoomsEnv(), 0.25)
    env.reset(options={"task": "cellar"})
    assert [env.step(action)[1] for action in ("fly", "go to kitchen", "go to cellar")] == [-0.25, 0.0, 1.0]


def test_charges_for_replies_that_a_format_refused():
    env = InvalidActionPenalty(ParseTags(ParrotEnv()))
    env.reset()
    assert env.step("a")[1] == pytest.approx(1 - 0.1)
    assert env.step("<action>a</action>")[1] == 2.0


def test_charges_for_malformed_replies_only_if_asked():
    env = InvalidActionPenalty(ParseTags(RoomsEnv()), 0.25, malformed_only=True)
    env.reset(options={"task": "cellar"})
    assert env.step("go to kitchen")[1] == -0.25
    assert env.step("<action>fly</action>")[1] == 0.0


@pytest.mark.parametrize("penalty", [-0.1, float("nan")])
def test_refuses(penalty):
    with pytest.raises(ValueError, match="subtracted"):
        InvalidActionPenalty(RoomsEnv(), penalty)
