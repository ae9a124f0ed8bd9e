"""A hundred thousand hostile actions, many envs at once, threads, and memory."""

import gc
import random
import threading
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_r1_envs.alfworld.env import ALFWorldEnv

PIECES = [
    "go to ", "take ", "move ", "put ", "open ", "close ", "examine ", "use ", "clean ", "heat ", "cool ", "slice ",
    " from ", " to ", " in/on ", " with ", "look", "inventory", "help", "1", "2", " ", "\n", ".", "{", "}", "#", "[",
    "\x00", "\ud800", "\U0001f600", "é", "__import__('os')", "(:goal", ";", "%s", "{o}", "-1", "0",
]  # fmt: skip


def hostile(rng: random.Random, admissible: list[str], names: list[str]) -> str:
    kind = rng.random()
    if kind < 0.3:
        return "".join(rng.choices([*PIECES, *names], k=rng.randrange(8)))
    text = rng.choice(admissible)
    if kind < 0.5:
        return text
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(PIECES) + text[place + rng.randrange(3) :]


@pytest.mark.parametrize(("seed", "actions"), [(0, 10_000), pytest.param(1, 40_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lenient", [False, True])
def test_hostile_actions(lenient: bool, seed: int, actions: int) -> None:
    rng = random.Random(seed)
    env = ALFWorldEnv("test", lenient=lenient)
    counts = {True: 0, False: 0}
    while sum(counts.values()) < actions:
        _, info = env.reset(seed=rng.randrange(1000))
        game = env.task.load().game
        names, terminated = [*game.receptacles, *game.objects], False
        for _ in range(200):
            before = env._get_world()
            observation, reward, terminated, _, info = env.step(hostile(rng, info["admissible_actions"], names))
            invalid = "invalid_action" in info
            counts[invalid] += 1
            observation.encode("utf-8")
            if invalid:
                assert env._get_world() == before and observation == "Nothing happens." and reward == 0.0
                info["invalid_action"].encode("utf-8")
            if terminated:
                break
    assert min(counts.values()) > actions / 10


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(max_size=30) | st.sampled_from(PIECES), max_size=6), st.booleans())
def test_any_text(parts: list[str], lenient: bool) -> None:
    env = ALFWorldEnv("test", lenient=lenient)
    env.reset(options={"task": 4})
    assert env.step("".join(parts))[0]


@pytest.mark.parametrize("piece", ["go to ", "take a from ", " ", ".", "put x in ", "é", "\n"])
def test_huge_actions_are_quick(piece: str) -> None:
    env = ALFWorldEnv("test", lenient=True)
    env.reset(options={"task": 0})
    for size in (60_000, 1_000_000):
        assert "invalid_action" in env.step(piece * (size // len(piece)))[-1]


def test_envs_in_threads_do_not_disturb_each_other() -> None:
    def play(results: list[list[str]], index: int) -> None:
        env = ALFWorldEnv("test", order="sequential", shard=(index, 8))
        texts = []
        for _ in range(15):
            texts.append(env.reset()[0])
            terminated = False
            while not terminated:
                observation, _, terminated, _, _ = env.step(env.expert_action() or "")
                texts.append(observation)
        results[index] = texts

    alone: list[list[str]] = [[] for _ in range(8)]
    together: list[list[str]] = [[] for _ in range(8)]
    for index in range(8):
        play(alone, index)
    threads = [threading.Thread(target=play, args=(together, index)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone and all(together)


def test_an_env_is_small_and_resets_leave_nothing_behind() -> None:
    first = ALFWorldEnv("train")
    first.reset(seed=0)
    gc.collect()
    tracemalloc.start()
    envs = [ALFWorldEnv("train") for _ in range(50)]
    for number, env in enumerate(envs):
        env.reset(seed=number)
        env.step("look")
    gc.collect()
    each = tracemalloc.get_traced_memory()[0] / len(envs)
    assert each < 100_000
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(300):
        first.reset()
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] - before < 200_000
    tracemalloc.stop()


def test_no_episode_changes_another() -> None:
    one, other = ALFWorldEnv("test"), ALFWorldEnv("test")
    texts = [env.reset(options={"task": 5})[0] for env in (one, other)]
    assert texts[0] == texts[1]
    one.step(one.expert_action() or "")
    before = other.get_state()
    one.step(one.expert_action() or "")
    assert other.get_state() == before and other.tasks is one.tasks


def test_a_random_agent_hardly_ever_wins() -> None:
    rng = random.Random(0)
    env = ALFWorldEnv("test", order="sequential")
    won = 0
    for _ in range(200):
        _, info = env.reset()
        for _ in range(50):
            *_, terminated, _, info = env.step(rng.choice(info["admissible_actions"]))
            if terminated:
                won += 1
                break
    assert won <= 6
