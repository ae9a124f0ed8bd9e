import copy
import functools

import pytest
from agent_r1_wrappers.callables import Live, load_callable, recordable


class Model:
    def __call__(self, text):
        return text.upper()

    def __deepcopy__(self, memo):
        raise AssertionError("a live object must not be copied")


def test_callables_are_given_live_or_by_name():
    assert load_callable("json:dumps", "x")([]) == "[]" and load_callable(len, "x") is len
    with pytest.raises(TypeError, match="length must be a callable"):
        load_callable(3, "length")


def test_live_objects_are_recorded_without_a_copy():
    model = Model()
    recorded = recordable(model)
    assert copy.deepcopy({"a": recorded})["a"].target is model
    assert recorded("a") == "A" and recorded == Live(model) and recordable(recorded) is recorded
    assert len({recorded, Live(model)}) == 1 and "Model" in repr(recorded)
    for plain in ("json:dumps", len.__class__, None, Model.__call__, 3):
        assert recordable(plain) is plain
    assert isinstance(recordable(functools.partial(len)), Live)
