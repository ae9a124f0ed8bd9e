"""No action raises, and an invalid one changes nothing; episodes can be saved, specs rebuilt, panels pinned."""

import pickle
import random
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_r1_envs import restore, snapshot
from agent_r1_envs.cache import clear_cache
from agent_r1_envs.hotpotqa import HotpotQAEnv
from agent_r1_envs.hotpotqa.embedded import load_panel

# A change of any of these needs a new version of the environment's id.
PINNED = {
    "train": (4000, "7837bc46c3a6280f7d914ed0bec68a7afa07b942990cc6637acad6ac8a65b90d"),
    "validation": (500, "fadf22cc75c791b9bdfc71921fe3c29ce67d9d1b2f7d5654899b4d3fe2cf8cd7"),
    "test": (500, "259a3647263a577cc55be04e83b6ca635e37931e1674403caefa5bb5eae4ad3e"),
}

FRAGMENTS = [
    "search[", "lookup[", "answer[", "finish[", "]", "[", "{", "}", '"name": "search"', '"arguments": {"query": "x"}',
    '{"name": "search", "arguments": {"query": "Timid Mountain"}}', '{"name": "answer", "arguments": {}}', "\\", '"',
    "Timid Mountain", "Nadia Abbott", "\n", "\r\n", "\x00", "\x1b[31m", "\u2028", "\ud800", "\udfff", "\U0001f600",
    "é", "ﬀ", "null", "NaN", "1e999", "-", ",", ":", " ", "\t", "<think>", "I think", "answer", "the", "search[x]",
]  # fmt: skip


def check_step(env: HotpotQAEnv, action: str) -> bool:
    """Step and check what must hold whatever the action; return whether the episode ended."""
    before = env.get_state()
    observation, reward, terminated, truncated, info = env.step(action)
    after = env.get_state()
    observation.encode("utf-8")
    assert env.observation_space.contains(observation)
    assert not truncated and 0.0 <= reward <= 1.0 and after["turn"] == before["turn"] + 1
    if "invalid_action" in info:
        assert info["invalid_action"] and not terminated and reward == 0.0
        for state in (before, after):
            del state["turn"]
            state.pop("observation", None)
        assert before == after
    return terminated


@pytest.mark.parametrize(("seed", "actions"), [(0, 4_000), pytest.param(1, 16_000, marks=pytest.mark.slow)])
def test_random_actions(seed: int, actions: int) -> None:
    rng = random.Random(seed)
    env = HotpotQAEnv("test", lookup=True)
    env.reset(seed=0)
    kinds = {"ended": 0, "went on": 0}
    for _ in range(actions):
        action = "".join(rng.choice(FRAGMENTS) for _ in range(rng.randrange(9)))
        if rng.random() < 0.5:  # otherwise hardly any would be valid
            action = f"{rng.choice(['search', 'lookup', 'answer', 'finish'])}[{action}]"
        ended = check_step(env, action)
        kinds["ended" if ended else "went on"] += 1
        if ended or env.turn > 8:
            env.reset()
    assert min(kinds.values()) > actions / 20


@pytest.mark.parametrize("size", [65_536, 1 << 20])
@pytest.mark.parametrize("unit", ["x", "search[", "\n", "[", "\ud800", "é", '{"a":', "search[x]\n", "]"])
def test_huge_actions(unit: str, size: int) -> None:
    env = HotpotQAEnv("test")
    env.reset(seed=0)
    check_step(env, unit * (size // len(unit)))
    env.reset(seed=0)
    check_step(env, "search[" + unit * (size // len(unit)) + "]")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(max_size=60) | st.sampled_from(FRAGMENTS), max_size=6))
def test_any_text(parts: list[str]) -> None:
    env = HotpotQAEnv("test", force_first_search=True)
    env.reset(options={"task": 0})
    check_step(env, "".join(parts))
    if not check_step(env, "search[" + "".join(parts) + "]"):
        check_step(env, "answer[" + "".join(parts) + "]")


@given(st.text(max_size=60), st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_a_search_shows_no_passage_twice(first: str, second: str) -> None:
    env = HotpotQAEnv("test")
    env.reset(options={"task": 1})
    env.step(f"search[{first}]\nsearch[Timid {second}]")
    env.step("search[Timid Mountain]\nsearch[Timid Dream]")
    passages = [(passage["title"], passage["text"]) for passage in env.step("search[town]")[-1]["passages"]]
    assert len(set(passages)) == len(passages)


def test_snapshots_go_through_the_stack_and_into_another_env() -> None:
    env = gymnasium.make("AgentR1/HotpotQA-v0", split="test", lookup=True)
    env.reset(options={"task": 1})
    env.step("search[Timid Mountain]\nlookup[film]")
    saved = pickle.loads(pickle.dumps(snapshot(env)))

    def rest(env: gymnasium.Env[Any, Any]) -> list[Any]:
        said = [env.step(action) for action in ("search[Timid Dream]", "lookup[film]", "answer[Marten Hollow]")]
        return [(step[0], step[1], step[2], step[3], step[4]["reward_info"], step[4]["passages"]) for step in said]

    expected = rest(env)
    restore(env, saved)
    assert rest(env) == expected
    other = gymnasium.make("AgentR1/HotpotQA-v0", split="test", lookup=True)
    restore(other, saved)
    assert rest(other) == expected


def test_seeds_choose_tasks_alone_and_repeat() -> None:
    env = HotpotQAEnv("test")
    first = [env.reset(seed=7)[1]["task_id"], *(env.reset()[1]["task_id"] for _ in range(5))]
    again = [env.reset(seed=7)[1]["task_id"], *(env.reset()[1]["task_id"] for _ in range(5))]
    assert first == again and len(set(first)) > 3
    by_position, by_id = env.reset(options={"task": np.int64(4)}), env.reset(options={"task": env.tasks.ids[4]})
    assert by_position == by_id


def test_spec_rebuilds_the_env_in_a_fresh_process() -> None:
    env = gymnasium.make("AgentR1/HotpotQA-v0", split="test", top_k=2, retrieval="corpus", metric="f1")
    expected = env.reset(seed=3)[0], env.step("search[Timid Mountain]")[0]
    code = (
        "import sys, gymnasium, agent_r1_envs\n"
        "env = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(sys.stdin.read()))\n"
        "print(repr((env.reset(seed=3)[0], env.step('search[Timid Mountain]')[0])))"
    )
    assert env.spec is not None
    there = subprocess.run(
        [sys.executable, "-c", code], input=env.spec.to_json(), capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == repr(expected)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_make_vec_works_with_default_arguments(mode: str) -> None:
    envs = gymnasium.make_vec("AgentR1/HotpotQA-v0", num_envs=2, vectorization_mode=mode)
    alone = gymnasium.make("AgentR1/HotpotQA-v0")
    try:
        observations, _ = envs.reset(seed=[1, 2])
        assert list(observations) == [alone.reset(seed=seed)[0] for seed in (1, 2)]
        observations, *_ = envs.step(["search[a]", "answer[b]"])
        assert observations[1] == "Answer: b"
    finally:
        envs.close()


@pytest.mark.parametrize("split", sorted(PINNED))
def test_embedded_panels_are_pinned(split: str) -> None:
    panel = load_panel(split)
    assert (len(panel), panel.content_hash) == PINNED[split]
    assert panel.dataset == "synthetic"


def test_the_panel_is_made_once_until_the_cache_is_cleared() -> None:
    panel = load_panel("validation")
    assert HotpotQAEnv("validation").tasks is panel
    clear_cache()
    assert load_panel("validation") is not panel
    assert list(load_panel("validation")) == list(panel)
