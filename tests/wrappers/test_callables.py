import copy
import functools

import pytest
from agent_r1_wrappers.callables import Live, is_name, load_callable, load_name, recordable


class Model:
    def __call__(self, text):
        return text.upper()

    def __deepcopy__(self, memo):
        raise AssertionError("a live object must not be copied")


def test_names():
    assert load_name("json:dumps")([]) == "[]"
    assert load_name("json:JSONDecoder.decode")
    assert load_callable("json:dumps", "x") and load_callable(len, "x") is len
    assert is_name("a.b:c") and not is_name("a: b") and not is_name("Question: who?") and not is_name(3)
    with pytest.raises(ValueError, match="module:name"):
        load_name("json")
    with pytest.raises(ImportError, match="has no 'nothing'"):
        load_name("json:nothing")
    with pytest.raises(ImportError):
        load_name("no_such_module:x")
    with pytest.raises(TypeError, match="length must be a callable"):
        load_callable(3, "length")


def test_live_objects_are_recorded_without_a_copy():
    model = Model()
    recorded = recordable(model)
    assert copy.deepcopy({"a": recorded})["a"].target is model
    assert recorded("a") == "A" and recorded == Live(model) and recordable(recorded) is recorded
    assert len({recorded, Live(model)}) == 1 and "Model" in repr(recorded)
    for plain in ("json:dumps", len.__class__, None, test_names, 3):
        assert recordable(plain) is plain
    assert isinstance(recordable(functools.partial(len)), Live)
