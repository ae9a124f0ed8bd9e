"""Whatever a model replies: nothing raises, observations stay in their space, and what is invalid changes nothing."""

import random

import gymnasium
import pytest
from agent_r1_wrappers import recipes, reply_for

from tests.helpers.contract import random_actions
from tests.helpers.text_envs import ROOMS

IDS = [recipe.id for recipe in recipes.RECIPES]
PIECES = ["<tool_call>", "</tool_call>", "<action>", "</action>", "<search>", "</search>", "</think>", "\nAction: "]


@pytest.mark.parametrize("env_id", [*IDS, "AgentR1/HotpotQA-v0", ROOMS])
def test_random_replies(env_id):
    env = recipes.default(gymnasium.make(env_id))
    rng = random.Random(0)
    _, info = env.reset(seed=0)
    source = random_actions(env, info, seed=0)
    counts = {True: 0, False: 0}
    for _ in range(300):
        reply = next(source)
        if rng.random() < 0.6:
            reply = reply_for(env, env.unwrapped.expert_action())
            for _ in range(rng.randrange(3)):
                place = rng.randrange(len(reply))
                reply = (
                    reply[:place] + rng.choice([*PIECES, '"', "}", "\ud800", "\n"]) + reply[place + rng.randrange(9) :]
                )
        before = env.unwrapped.get_state()
        messages, _, terminated, truncated, info = env.step(reply)
        assert messages in env.observation_space
        invalid = "invalid_action" in info
        counts[invalid] += 1
        if invalid:
            assert {**env.unwrapped.get_state(), "turn": before["turn"]} == before
        if terminated or truncated:
            env.reset()
    assert min(counts.values()) > 50
