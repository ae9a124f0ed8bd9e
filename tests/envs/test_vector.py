"""Vector envs: what crosses between processes is what a single env says."""

import functools
import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from agent_r1_envs.spaces import FreeText, Messages
from tests.helpers.chat import Chat
from tests.helpers.registered import DIRECTORY, all_ids, register_directory

MODES = list(AutoresetMode)
STEPS = 8


def directory(position: int = 0, chat: bool = False, **kwargs: object) -> gymnasium.Env:
    """Make one env; a function of a module, so that spawned processes can import it."""
    register_directory()
    env = gymnasium.make(DIRECTORY, order="sequential", shard=(position, 2), **kwargs)
    return Chat(env) if chat else env


def actions(step: int) -> tuple[str, str]:
    """One env reads non-ASCII text and answers at step 4; the other one also sends what is no action."""
    return (
        "answer[東京]" if step == 4 else "city[明子]\nfriend[Zoë]",
        ["note[ä漢\U0001f642]", "prose, no call", "city[Иван]", "answer[x]"][step % 4],
    )


def equal(left: object, right: object) -> bool:
    """Compare infos of vector envs, which hold dicts and object arrays."""
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and left.dtype == right.dtype and all(map(equal, left, right))
    return bool(left == right)


def check_same(sync: gymnasium.vector.VectorEnv, other: gymnasium.vector.VectorEnv, mode: AutoresetMode) -> None:
    """Run both and compare everything, at reset and at every step."""
    expected, got = sync.reset(seed=5), other.reset(seed=5)
    assert type(got[0]) is tuple and got[0] == expected[0]
    assert equal(got[1], expected[1])
    kept = [(got[0], expected[0])]
    for step in range(STEPS):
        expected, got = sync.step(actions(step)), other.step(actions(step))
        assert got[0] == expected[0]
        assert all(np.array_equal(left, right) for left, right in zip(got[1:4], expected[1:4], strict=True))
        assert equal(got[4], expected[4])
        assert got[0] in other.observation_space
        kept.append((got[0], expected[0]))
        done = expected[2] | expected[3]
        if mode == AutoresetMode.DISABLED and done.any():
            expected = sync.reset(options={"reset_mask": done.copy()})
            got = other.reset(options={"reset_mask": done.copy()})
            assert got[0] == expected[0] and equal(got[1], expected[1])
    assert all(left == right for left, right in kept), "later steps changed observations that were handed out"
    assert len({repr(left) for left, _ in kept}) > 3


@pytest.mark.parametrize("chat", [False, True], ids=["text", "chat"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_async_with_default_arguments_is_sync(mode: AutoresetMode, chat: bool) -> None:
    make = [functools.partial(directory, position, chat) for position in range(2)]
    sync, parallel = SyncVectorEnv(make, autoreset_mode=mode), AsyncVectorEnv(make, autoreset_mode=mode)
    try:
        check_same(sync, parallel, mode)
    finally:
        parallel.close()


@pytest.mark.parametrize("chat", [False, True], ids=["text", "chat"])
def test_spawned_processes_give_the_same(chat: bool) -> None:
    make = [functools.partial(directory, position, chat) for position in range(2)]
    parallel = AsyncVectorEnv(make, context="spawn")
    try:
        check_same(SyncVectorEnv(make), parallel, AutoresetMode.NEXT_STEP)
    finally:
        parallel.close()


@pytest.mark.parametrize("kwargs", [{"shared_memory": False}, {"copy": False}, {"observation_mode": "different"}])
def test_other_arguments_give_the_same(kwargs: dict[str, object]) -> None:
    make = [functools.partial(directory, position) for position in range(2)]
    sync, parallel = SyncVectorEnv(make), AsyncVectorEnv(make, **kwargs)
    try:
        assert tuple(parallel.reset(seed=1)[0]) == sync.reset(seed=1)[0]
        for step in range(STEPS):
            assert tuple(parallel.step(actions(step))[0]) == sync.step(actions(step))[0]
    finally:
        parallel.close()


@pytest.mark.parametrize("env_id", all_ids())
def test_make_vec_async_with_default_arguments(env_id: str) -> None:
    sync = gymnasium.make_vec(env_id, num_envs=2)
    parallel = gymnasium.make_vec(env_id, num_envs=2, vectorization_mode="async")
    try:
        expected, got = sync.reset(seed=3), parallel.reset(seed=3)
        assert got[0] == expected[0] and equal(got[1], expected[1])
        experts = sync.call("expert_action")
        assert parallel.call("expert_action") == experts
        for step in range(STEPS):
            sent = experts if step % 2 else ("nonsense é", experts[1])
            expected, got = sync.step(sent), parallel.step(sent)
            assert got[0] == expected[0]
            assert equal(got[4], expected[4])
            experts = tuple(expert or "x" for expert in sync.call("expert_action"))
    finally:
        parallel.close()
        sync.close()


@pytest.mark.parametrize("vectorization_mode", ["sync", "async"])
def test_make_vec_evaluates_each_task_once_through_shards(vectorization_mode: str) -> None:
    envs = gymnasium.make_vec(
        register_directory(),
        num_envs=3,
        vectorization_mode=vectorization_mode,
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        order="sequential",
    )
    try:
        envs.set_attr("shard", [(position, 3) for position in range(3)])
        _, infos = envs.reset()
        seen = list(infos["task_id"])
        while len(seen) < 9:
            *_, infos = envs.step(("answer[?]",) * 3)
            seen.extend(infos["task_id"])
        assert sorted(seen[:8]) == sorted(f"errand-{number}" for number in range(8))
    finally:
        envs.close()


def test_text_inside_other_spaces_crosses_as_well() -> None:
    from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

    space = gymnasium.spaces.Dict(
        {"said": FreeText(20), "chat": Messages(200), "at": gymnasium.spaces.Tuple([FreeText(3), FreeText(5)])}
    )
    memory = create_shared_memory(space, n=2)
    view = read_from_shared_memory(space, memory, n=2)
    talk = [{"role": "user", "content": "é\x00"}]
    write_to_shared_memory(space, 1, {"said": "漢" * 20, "chat": talk, "at": ("abc", "")}, memory)
    assert tuple(view["said"]) == ("", "漢" * 20)
    assert tuple(view["chat"]) == ([], talk)
    assert [tuple(part) for part in view["at"]] == [("", "abc"), ("", "")]
    with pytest.raises(ValueError, match="does not fit"):
        write_to_shared_memory(space["said"], 0, "x" * 200, memory["said"])


def test_a_shorter_text_leaves_nothing_of_a_longer_one_behind() -> None:
    from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

    space = FreeText(10)
    memory = create_shared_memory(space, n=3)
    view = read_from_shared_memory(space, memory, n=3)
    for text in itertools.chain.from_iterable([["漢" * 10, "b", "", "\0\0", "é"]]):
        write_to_shared_memory(space, 1, text, memory)
        assert view[1] == text and view == ("", text, "")
        assert view[0:2] == ("", text)
        assert len(view) == 3 and repr(view) == repr(("", text, ""))
