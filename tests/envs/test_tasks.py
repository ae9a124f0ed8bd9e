"""Panels, and the order in which episodes take tasks from them."""

import dataclasses
from collections import Counter

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.sampling import TaskDraws
from agent_r1_envs.tasks import TaskSet
from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.registered import all_ids


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    name: str
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]


def panel(tasks: list[object], **kwargs: object) -> TaskSet:
    arguments = {
        "dataset": "synthetic",
        "split": "test",
        "ids": [str(number) for number in range(len(tasks))],
        **kwargs,
    }
    return TaskSet(tasks, **arguments)


def test_a_panel_is_a_sequence() -> None:
    tasks = panel(["a", "b", "c"], ids=["x", "y", "z"])
    assert list(tasks) == ["a", "b", "c"] and len(tasks) == 3
    assert tasks[1] == "b" and tasks[-1] == "c" and tasks[1:] == ("b", "c")
    assert tasks.index_of("z") == 2 and tasks.ids == ("x", "y", "z")
    assert repr(tasks) == "TaskSet(3 tasks, dataset='synthetic', split='test')"
    with pytest.raises(AttributeError):
        tasks.ids = ()  # type: ignore[misc]


def test_an_unknown_id_names_its_neighbours() -> None:
    tasks = panel([0, 0, 0], ids=["question-12", "question-13", "other"])
    with pytest.raises(KeyError, match="question-12"):
        tasks.index_of("question12")
    with pytest.raises(KeyError, match="no task"):
        tasks.index_of("")


@pytest.mark.parametrize(
    ("tasks", "ids", "message"),
    [([], [], "no task"), (["a"], [], "as many ids"), (["a", "b"], ["x", "x"], "share"), (["a"], [3], "string")],
)
def test_impossible_panels_raise(tasks: list[str], ids: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        panel(tasks, ids=ids)


def test_the_hash_is_that_of_the_content() -> None:
    whole = [Whole((Part("ä"), Part("b", 2.5))), Whole(())]
    reference = panel(whole).content_hash
    assert reference == panel([Whole((Part("ä"), Part("b", 2.5))), Whole(())]).content_hash
    others = [
        panel(whole[::-1]),
        panel(whole, ids=["0", "2"]),
        panel(whole, split="train"),
        panel(whole, dataset="other"),
        panel([Whole((Part("ä"), Part("b", 2.25))), Whole(())]),
    ]
    assert len({reference, *(other.content_hash for other in others)}) == 6
    assert panel([{"b": 1, "a": 2}]).content_hash == panel([{"a": 2, "b": 1}]).content_hash
    assert panel(whole, content_hash="known").content_hash == "known"
    # Pinned: the hash must not depend on the machine or the Python version.
    assert panel(["a"]).content_hash == "94fbf0e4c656feffd268bcdbb71ba8e956479b086a11cb6226059a7512b8e255"


def test_what_is_not_data_has_no_hash() -> None:
    with pytest.raises(TypeError, match="object"):
        _ = panel([object()]).content_hash


def draws(sampler: TaskDraws, count: int, seed: int = 0) -> list[int]:
    rng = np.random.default_rng(seed)
    return [sampler.draw(lambda: rng) for _ in range(count)]


@given(st.integers(1, 30), st.integers(1, 6), st.data())
def test_shards_part_the_panel(size: int, count: int, data: st.DataObject) -> None:
    count = min(count, size)
    order = data.draw(st.sampled_from(["shuffled", "sequential"]))
    seen: list[int] = []
    for index in range(count):
        sampler = TaskDraws(size, order=order, shard=(index, count))
        length = len(range(index, size, count))
        first, second = (draws(sampler, length, seed) for seed in (1, 2))
        assert sorted(first) == sorted(second), "each pass takes each task once"
        seen += first
    assert sorted(seen) == list(range(size))


def test_sequential_needs_no_random_number() -> None:
    def never() -> np.random.Generator:
        raise AssertionError("a random number was drawn")

    sampler = TaskDraws(3, order="sequential", shard=(0, 1))
    assert [sampler.draw(never) for _ in range(5)] == [0, 1, 2, 0, 1]


def test_random_is_uniform_over_the_shard() -> None:
    counts = Counter(draws(TaskDraws(10, order="random", shard=(1, 2)), 5_000))
    assert set(counts) == {1, 3, 5, 7, 9}
    assert all(abs(count - 1_000) < 130 for count in counts.values())  # more than four standard deviations


@pytest.mark.parametrize("order", ["random", "shuffled", "sequential"])
def test_a_seeded_reset_begins_again(order: str) -> None:
    env = DirectoryEnv(order=order)
    runs = [[env.reset(seed=4)[1]["task_id"], *(env.reset()[1]["task_id"] for _ in range(15))] for _ in range(2)]
    assert runs[0] == runs[1]


def test_the_shard_can_be_set_between_episodes() -> None:
    env = DirectoryEnv(order="sequential", shard=[1, 4])  # a list, as JSON has it
    assert env.shard == (1, 4)
    assert [env.reset()[1]["task_id"] for _ in range(3)] == ["errand-1", "errand-5", "errand-1"]
    env.shard = (0, 3)
    assert [env.reset()[1]["task_id"] for _ in range(4)] == ["errand-0", "errand-3", "errand-6", "errand-0"]
    with pytest.raises(ValueError, match="shard"):
        env.shard = (3, 3)
    assert env.shard == (0, 3)


def test_a_seed_does_not_touch_the_panel() -> None:
    for env_id in all_ids():
        env = gymnasium.make(env_id)
        before = env.unwrapped.tasks.content_hash
        env.reset(seed=1)
        env.reset(seed=2)
        assert env.unwrapped.tasks.content_hash == before == gymnasium.make(env_id).unwrapped.tasks.content_hash


def test_types_of_tasks_are_those_that_tasks_have() -> None:
    import gymnasium

    import agent_r1_envs  # noqa: F401  (registers the ids)

    types = gymnasium.make("AgentR1/ALFWorld-v0", split="valid_seen").unwrapped.tasks.task_types  # type: ignore[attr-defined]
    assert len(types) == 240 and len(set(types)) == 6
    questions = gymnasium.make("AgentR1/HotpotQA-v0", split="test").unwrapped.tasks  # type: ignore[attr-defined]
    assert set(questions.task_types) == {"bridge", "comparison"}
    for env in ("AgentR1/WebShop-v0", "AgentR1/PaperSearch-v0"):
        assert gymnasium.make(env, split="test").unwrapped.tasks.task_types is None  # type: ignore[attr-defined]
