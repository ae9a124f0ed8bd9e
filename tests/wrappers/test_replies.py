import pytest
from agent_r1_wrappers import (
    AppendHistory,
    ParseReAct,
    ParseTags,
    ParseToolCalls,
    SuccessBonus,
    TruncateHistory,
    reply_for,
)

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import RoomsEnv


@pytest.mark.parametrize(
    "form", [ParseTags, ParseToolCalls, ParseReAct, lambda env: ParseTags(ParseToolCalls(env)), SuccessBonus]
)
@pytest.mark.parametrize("make", [DirectoryEnv, RoomsEnv])
def test_an_expert_plays_through_any_stack(form, make):
    env = TruncateHistory(AppendHistory(form(make())), turns=2)
    env.reset(seed=0)
    terminated = False
    for _ in range(2):
        if not terminated:
            *_, terminated, _, info = env.step(reply_for(env, env.unwrapped.expert_action(), "So it is."))
            assert "invalid_action" not in info
    assert terminated and info["success"]


def test_the_thought_goes_into_the_outermost_format():
    env = ParseTags(ParseToolCalls(RoomsEnv()))
    assert reply_for(env, "go", "hm").startswith("<think>hm</think>\n<action><tool_call>")
    assert reply_for(RoomsEnv(), "go", "hm") == "go"
