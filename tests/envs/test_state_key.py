"""The key of a state: equal for every way into it, and nothing but the state changes it."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest

import agent_r1_envs  # noqa: F401  (registers the ids)
from agent_r1_envs.digest import digest
from agent_r1_envs.errors import ResetNeeded
from tests.helpers.contract import base
from tests.helpers.registered import all_ids

IDS = [name for name in all_ids() if not name.startswith("AgentR1Tests")]


def play(name: str, actions: list[str], *, seed: int = 0) -> gymnasium.Env:
    env = gymnasium.make(name)
    env.reset(seed=seed, options={"task": 0})
    for action in actions:
        *_, info = env.step(action)
        assert "invalid_action" not in info, (action, info)
    return env


def key(name: str, actions: list[str], *, seed: int = 0) -> str:
    return base(play(name, actions, seed=seed)).state_key()


def expert(name: str) -> list[str]:
    """What the expert does in the first task."""
    env = gymnasium.make(name)
    env.reset(options={"task": 0})
    actions, over = [], False
    while not over:
        actions.append(base(env).expert_action())
        _, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    return actions


def two_ways(name: str) -> tuple[list[str], list[str], list[str]]:
    """Two ways into one state, and a third into another one that is as many turns away."""
    if "ALFWorld" in name:
        first, second = "go to drawer 1", "go to drawer 2"
        return [first, second], [second, first, second], [second, first]
    if "HotpotQA" in name:
        first, second = expert(name)[:2]
        return [first, second], [second, first], [first, first]
    if "PaperSearch" in name:
        queries = expert(name)[0].split("\n")[:3]
        return queries[:2], queries[1::-1], queries[1:]
    search, product, one, other = expert(name)[:4]
    return [search, product, one, other], [search, product, other, one, one], [search, product, one, one]


@pytest.mark.parametrize("name", IDS)
def test_every_way_into_a_state_gives_its_key(name):
    here, there, elsewhere = two_ways(name)
    assert here != there
    assert key(name, here) == key(name, there, seed=5)
    assert key(name, here) != key(name, elsewhere)


@pytest.mark.parametrize("name", IDS)
def test_an_invalid_action_changes_nothing(name):
    env = play(name, expert(name)[:1])
    before = base(env).state_key()
    for _ in range(2):
        *_, info = env.step("no action at all")
        assert "invalid_action" in info and base(env).state_key() == before
    assert base(env).turn == 3


@pytest.mark.parametrize("name", IDS)
def test_every_step_of_an_expert_leads_into_another_state(name):
    actions = expert(name)
    keys = [key(name, actions[:count]) for count in range(len(actions) + 1)]
    assert len(set(keys)) == len(keys)
    other = gymnasium.make(name)
    other.reset(options={"task": 1})
    assert base(other).state_key() not in keys


@pytest.mark.parametrize("name", IDS)
def test_a_state_that_was_restored_has_its_key(name):
    env = play(name, expert(name)[:1])
    state, before = base(env).get_state(), base(env).state_key()
    env.step(expert(name)[1])
    assert base(env).state_key() != before
    base(env).set_state(state)
    assert base(env).state_key() == before


def test_in_a_household_the_same_words_are_not_the_same_state():
    name = next(name for name in IDS if "ALFWorld" in name)
    said, keys = set(), set()
    for place in ("go to drawer 1", "go to drawer 2"):
        env = play(name, [place])
        said.add(env.step("dance")[0].splitlines()[0])
        keys.add(base(env).state_key())
    assert len(said) == 1 and len(keys) == 2


def test_there_is_no_key_before_the_first_reset():
    with pytest.raises(ResetNeeded):
        base(gymnasium.make(IDS[0])).state_key()


@dataclass
class Pair:
    left: object
    right: object


def test_the_digest_is_one_of_content():
    shared = ["x"]
    assert digest([shared, shared]) == digest([["x"], ["x"]])
    assert digest({"b": {2, 1}, "a": 0.5}) == digest({"a": 0.5, "b": frozenset({1, 2})})
    assert digest(np.arange(3)) == digest(np.arange(3)) != digest(np.arange(4))
    different = [
        None,
        "",
        "1",
        1,
        1.0,
        True,
        b"1",
        [1],
        [[1]],
        ["1"],
        {1},
        {1: 1},
        [1, 1],
        Pair(1, 2),
        Pair(2, 1),
        "a\ud800",
    ]
    assert len({digest(value) for value in different}) == len(different)
