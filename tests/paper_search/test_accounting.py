"""The sum of an episode's rewards is the documented formula, computed here from the papers alone."""

import random
from typing import Any

import gymnasium
import pytest

from agent_r1_envs.paper_search.backends import Expand, Limits, Search
from agent_r1_envs.paper_search.embedded import embedded_backend
from agent_r1_envs.paper_search.env import PaperSearchEnv
from agent_r1_envs.paper_search.relevance import KnownAnswers
from agent_r1_envs.tools import Call, format_calls

COSTS = {"search": 0.05, "expand": 0.1}


def documented(env: PaperSearchEnv, turns: list[list[tuple[str, str]]]) -> float:
    """Return what an episode pays by the rules, from the service and the selector and nothing of the env."""
    task, service, judge = env.task, embedded_backend(), KnownAnswers()
    pool: set[str] = set()
    asked: set[str] = set()
    total = 0.0
    for turn in turns:
        before = set(pool)
        for name, argument in turn:
            call = f"{name} {argument.lower()}"
            known = name == "search" or argument in before
            if call in asked or not known:
                total -= 0.5
                continue
            asked.add(call)
            lookup = Search(argument) if name == "search" else Expand(argument)
            [found] = service.look_up([lookup], Limits(), task.cutoff)
            new = [(p.id, judge.judge(task, [p])[0] or 0.0) for p in found.papers if p.id not in pool]
            kept = [(key, score) for key, score in new if score >= 0.01]
            pool |= {key for key, _ in kept}
            total += sum(sorted((score for _, score in kept), reverse=True)[:3]) - COSTS[name]
    return total


def random_turn(rng: random.Random, env: PaperSearchEnv, info: dict[str, Any]) -> list[tuple[str, str]]:
    calls = []
    shown = [paper["id"] for paper in info["pool"]]
    for _ in range(rng.randrange(1, 6)):
        if shown and rng.random() < 0.4:
            calls.append(("expand", rng.choice([*shown, "P00001", "nothing"])))
        else:
            words = rng.choice([env.task.question, *env.task.titles]).strip("?.").split()
            calls.append(("search", " ".join(words[: rng.randrange(1, 9)])))
    return calls


@pytest.mark.parametrize("episodes", [250, pytest.param(1_000, marks=pytest.mark.slow)])
def test_random_episodes(episodes: int) -> None:
    rng = random.Random(0)
    env = gymnasium.make(
        "AgentR1/PaperSearch-v0", search_cost=COSTS["search"], expand_cost=COSTS["expand"], disable_env_checker=True
    )
    bare = env.unwrapped
    assert isinstance(bare, PaperSearchEnv)
    paid, repeats = 0, 0.0
    for _ in range(episodes):
        _, info = env.reset(options={"task": rng.randrange(len(bare.tasks))})
        turns: list[list[tuple[str, str]]] = []
        total = 0.0
        done = False
        while not done:
            if turns and rng.random() < 0.25:
                _, reward, terminated, truncated, info = env.step("finish[done]")
                assert reward == 0.0 and terminated
            else:
                turn = random_turn(rng, bare, info)
                turns.append(turn)
                names = {"search": "query", "expand": "paper_id"}
                action = format_calls([Call(name, {names[name]: argument}) for name, argument in turn], bare.tools)
                _, reward, terminated, truncated, info = env.step(action)
                assert reward == pytest.approx(sum(call["reward"] for call in info["calls"]), abs=1e-12)
            total += reward
            done = terminated or truncated
        assert total == pytest.approx(documented(bare, turns), abs=1e-9)
        paid += total > 0
        repeats += info["reward_info"]["repeats"]
    assert paid > 0.3 * episodes < repeats, "the episodes hold both rewards and penalties"
