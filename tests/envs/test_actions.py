import copy
import pickle

import pytest

from agent_r1_envs.actions import MalformedAction


def test_is_the_reply_with_a_reason():
    action = MalformedAction("hm", "no call")
    assert action == "hm" and isinstance(action, str) and action.reason == "no call"


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_survives_copies_and_pickles(clone):
    twin = clone(MalformedAction("h\u00e4?", "no call"))
    assert (type(twin), twin, twin.reason) == (MalformedAction, "h\u00e4?", "no call")


def test_needs_a_reason():
    with pytest.raises(ValueError, match="reason"):
        MalformedAction("hm", "")
