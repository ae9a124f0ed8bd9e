"""FreeText and Messages as Gymnasium spaces."""

import copy
import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Text
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import batch_space, create_empty_array
from gymnasium.wrappers import PassiveEnvChecker
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.spaces import FreeText, Messages
from tests.helpers.chat import Chat
from tests.helpers.directory_env import DirectoryEnv

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))  # surrogates included
TEXT = st.text()
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXT},
        optional={"tool_calls": st.lists(st.dictionaries(TEXT, TEXT, max_size=2), max_size=2)},
    ),
    max_size=4,
)


@given(ANY_TEXT, st.integers(0, 8))
def test_free_text_holds_what_utf8_can_within_the_length(text: str, length: int) -> None:
    try:
        text.encode("utf-8")
        valid = True
    except UnicodeEncodeError:
        valid = False
    assert (text in FreeText(length)) == (valid and len(text) <= length)


@pytest.mark.parametrize("value", [None, 3, b"x", ["x"], np.array("x")])
def test_free_text_holds_nothing_but_strings(value: object) -> None:
    assert value not in FreeText(10)


@pytest.mark.parametrize("space", [FreeText(7), FreeText(0), FreeText(10**6), Messages(300), Messages(2), Messages()])
def test_samples_are_members_and_seeded(space: gymnasium.Space) -> None:
    space.seed(4)
    drawn = [space.sample() for _ in range(200)]
    assert all(sample in space for sample in drawn)
    space.seed(4)
    assert drawn == [space.sample() for _ in range(200)]


def test_samples_reach_beyond_ascii_and_the_empty_text() -> None:
    drawn = [FreeText(50, seed=0).sample() for _ in range(3)] + [
        FreeText(20, seed=seed).sample() for seed in range(300)
    ]
    assert any(not text.isascii() for text in drawn)
    assert "" in drawn


@pytest.mark.parametrize("space", [FreeText(7), Messages(300)])
def test_masks_are_refused(space: gymnasium.Space) -> None:
    with pytest.raises(ValueError, match="mask"):
        space.sample(mask=(None, None))
    with pytest.raises(ValueError, match="probability"):
        space.sample(probability=(None, None))


def test_free_text_is_a_text_for_other_libraries() -> None:
    space = FreeText(9)
    assert isinstance(space, Text)
    assert (space.min_length, space.max_length, space.shape) == (0, 9, None)
    assert repr(space) == "FreeText(9)"
    assert repr(Messages(9, 2)) == "Messages(9, max_messages=2)"


def test_equality() -> None:
    assert FreeText(9) == FreeText(9) != FreeText(8)
    assert FreeText(9) != Text(9, min_length=0, charset=FreeText(9).characters)
    assert Messages(9) == Messages(9) != Messages(9, 3)
    assert Messages(9) != FreeText(9)


@pytest.mark.parametrize("space", [FreeText(7), Messages(300, 4)])
def test_spaces_copy_and_pickle(space: gymnasium.Space) -> None:
    space.seed(1)
    for twin in (copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert twin == space
        assert twin.sample() == copy.deepcopy(space).sample()


@pytest.mark.parametrize("space", [FreeText(7), Messages(300)])
def test_spaces_are_not_flattenable_and_say_so(space: gymnasium.Space) -> None:
    assert space.is_np_flattenable is False
    for attempt in (
        lambda: flatdim(space),
        lambda: flatten(space, space.sample()),
        lambda: flatten_space(space),
        lambda: unflatten(space, np.zeros(3)),
    ):
        with pytest.raises(ValueError, match="cannot be flattened"):
            attempt()


@given(MESSAGES)
def test_conversations_are_members(messages: list[dict]) -> None:
    assert messages in Messages()
    assert (messages in Messages(max_messages=2)) == (len(messages) <= 2)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        (),
        ["text"],
        [{"role": "user"}],
        [{"content": "x"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": "\ud800"}],
        [{"role": "user", "content": "x", "extra": {1, 2}}],
        [{"role": "user", "content": "x", "extra": float("nan")}],
        [{"role": "user", "content": "x" * 300}],
    ],
)
def test_other_things_are_no_conversation(value: object) -> None:
    assert value not in Messages(300)


@pytest.mark.parametrize(("space", "empty"), [(FreeText(7), ""), (Messages(300), [])])
def test_batches(space: gymnasium.Space, empty: object) -> None:
    batched = batch_space(space, 3)
    assert isinstance(batched, gymnasium.spaces.Tuple) and list(batched.spaces) == [space] * 3
    assert batched.sample() in batched
    assert create_empty_array(space, n=2) == (empty, empty)


def test_the_passive_checker_is_silent_on_chat() -> None:
    env = PassiveEnvChecker(Chat(DirectoryEnv()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset(seed=1)
        for _ in range(3):
            env.step("note[a]")


@pytest.mark.parametrize("arguments", [{"max_length": 1}, {"max_messages": -1}])
def test_impossible_limits_raise(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="max_"):
        Messages(**arguments)
