"""Hostile actions raise nothing."""

import random
from collections.abc import Iterator

import gymnasium
import pytest

from agent_r1_envs.text import is_unicode
from tests.helpers.contract import base, random_actions


def hostile(env: gymnasium.Env, info: dict, seed: int) -> Iterator[str]:
    """Yield noise and damaged calls, and calls that name real papers and words in wrong ways."""
    rng = random.Random(seed)
    noise = random_actions(env, {"tools": info["tools"]}, seed=seed)
    ids = ["P00001", "P00100", "ARXIV:2501.10120v2", "../../x", "\u202e", "[[", "p00100", "10.1/x?y#z", "P" * 500]
    while True:
        if rng.random() < 0.97:
            words = rng.choices(["river", "sparse", "\x00", "]", "\ud83d", "level", "a" * 300, "[", "\n", "é"], k=5)
            lines = [f"expand[{rng.choice(ids)}]", f"search[{' '.join(words)}]", " ".join(words), "search[]"]
            yield rng.choice(["\n", " ", ""]).join(rng.choices(lines, k=rng.randrange(1, 4)))
        else:
            yield next(noise)


@pytest.mark.parametrize(("seed", "actions"), [(1, 10_000), pytest.param(2, 40_000, marks=pytest.mark.slow)])
def test_hostile_actions(seed: int, actions: int) -> None:
    env = gymnasium.make("AgentR1/PaperSearch-v0", max_episode_steps=-1, disable_env_checker=True)
    _, info = env.reset(seed=0)
    valid = 0
    for number, action in zip(range(actions), hostile(env, info, seed), strict=False):
        observation, reward, terminated, truncated, info = env.step(action)
        assert is_unicode(observation) and len(observation) <= 65_536 and not truncated
        assert -2.5 <= reward <= 15
        valid += "invalid_action" not in info
        if terminated or number % 40 == 39:
            env.reset()
    assert valid > actions / 25
    assert base(env).turn < 40
