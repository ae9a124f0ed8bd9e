import pytest
from agent_r1_wrappers import (
    AppendHistory,
    ParseReAct,
    ParseTags,
    ParseToolCalls,
    SuccessBonus,
    TruncateHistory,
    read_reply,
    reply_for,
)
from agent_r1_wrappers.formats.action_format import sample_replies

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


@pytest.mark.parametrize(
    "form", [ParseTags, ParseToolCalls, ParseReAct, lambda env: ParseTags(ParseToolCalls(env)), SuccessBonus]
)
def test_replies_are_read_without_a_step_or_an_episode(form):
    for make, samples in ((DirectoryEnv, ["friend[river]", "city[river]"]), (RoomsEnv, ["look"])):
        env = AppendHistory(form(make()))
        found = sample_replies(env, "Hm.")
        assert not found if form is SuccessBonus else found.keys() >= set(samples)
        assert all(read_reply(env, reply) == command and "Hm." in reply for command, reply in found.items())
    env = ParseTags(ParseToolCalls(RoomsEnv()))
    assert "no <action>" in read_reply(env, "look").reason
    assert "no <tool_call>" in read_reply(env, "<action>look</action>").reason
    assert read_reply(RoomsEnv(), "look") == "look"


def test_the_thought_goes_into_the_outermost_format():
    env = ParseTags(ParseToolCalls(RoomsEnv()))
    assert reply_for(env, "go", "hm").startswith("<think>hm</think>\n<action><tool_call>")
    assert reply_for(RoomsEnv(), "go", "hm") == "go"
