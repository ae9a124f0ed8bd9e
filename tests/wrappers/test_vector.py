"""Chat messages and wrapped text through vector envs."""

import functools
import warnings

import agent_r1_wrappers as w
import gymnasium
import pytest
from agent_r1_wrappers import recipes
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from tests.helpers.text_envs import ROOMS


def wrapped(number, system):
    env = w.ExplainInvalid(w.ParseTags(gymnasium.make(ROOMS)))
    env = w.AppendHistory(w.InvalidActionPenalty(env, 0.5), system=system, max_length=20_000)
    return w.TruncateHistory(env, turns=2) if number % 2 else w.AugmentContext(env)


def trace(envs):
    seen = [envs.reset(seed=7)[0]]
    for turn in range(9):
        replies = [f"<action>go to {place}</action>" for place in ("kitchen", "garden", "hall")]
        replies[turn % 3] = f"Grüße, 世界 {turn} 😀"
        observations, rewards, terminated, truncated, infos = envs.step(tuple(replies))
        seen.append(
            (observations, rewards.tolist(), terminated.tolist(), truncated.tolist(), list(infos.get("turn", [])))
        )
    envs.close()
    return seen


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("number", [0, 1])
def test_async_says_what_sync_says(context, number):
    make = [functools.partial(wrapped, number, "Où habite-t-il ?")] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        synchronous = trace(SyncVectorEnv(make))
        asynchronous = trace(AsyncVectorEnv(make, context=context))
    assert asynchronous == synchronous
    assert len({str(step[0]) for step in synchronous[1:]}) > 5, "observations change"


def test_recipes_by_id_with_default_arguments():
    results = []
    for mode in ("sync", "async"):
        envs = gymnasium.make_vec("AgentR1/HotpotQA-StepPO-v0", num_envs=2, vectorization_mode=mode)
        first, _ = envs.reset(seed=3)
        call = '<tool_call>{"name": "search", "arguments": {"query": "river"}}</tool_call>'
        results.append((first, envs.step((call, "?"))[0]))
        envs.close()
    assert results[0] == results[1]
    assert results[0][0] != results[0][1]


@pytest.mark.parametrize(
    "make", [recipes.default, recipes.native, w.ParseTags, w.ParseReAct, w.ExplainInvalid, w.AugmentContext]
)
def test_check_env_is_silent(make):
    for env_id in (ROOMS, "AgentR1/HotpotQA-v0"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=".*different from the unwrapped version")
            check_env(make(gymnasium.make(env_id, disable_env_checker=True)))
