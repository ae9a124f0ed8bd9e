import copy
import pickle

import agent_r1_wrappers as w
import gymnasium
import pytest
from agent_r1_wrappers import recipes

from agent_r1_envs import restore, snapshot
from tests.helpers.text_envs import ROOMS


def make(tmp_path):
    env = gymnasium.make(ROOMS)
    env = w.SuccessBonus(w.InvalidActionPenalty(w.ExplainInvalid(w.ParseTags(env))))
    env = w.AppendHistory(w.WrapObservation(w.AugmentContext(env, remaining_turns=True), before="> "), system="Walk.")
    env = w.TruncateHistory(w.SummarizeHistory(env, after_turns=1, keep_turns=0), turns=3)
    return w.RecordTrajectory(w.SuccessReward(env), tmp_path)


REPLIES = ["no", "<action>go to kitchen</action>", "<action>go to cellar</action>"]


def test_a_tall_stack_goes_back_here_and_in_another_env(tmp_path):
    env = make(tmp_path)
    env.reset(options={"task": "cellar"})
    env.step("first")
    saved = pickle.dumps(snapshot(env))
    original = [env.step(reply)[:4] for reply in REPLIES]
    restore(env, pickle.loads(saved))
    assert [env.step(reply)[:4] for reply in REPLIES] == original
    other = make(tmp_path)
    restore(other, pickle.loads(saved))
    assert [other.step(reply)[:4] for reply in REPLIES] == original
    assert original[-1][1:] == (1.0, True, True)
    records = list(w.read_trajectories(tmp_path))
    assert len(records) == 3 and records[0] == records[1] == records[2]


def test_a_rewritten_context_goes_back_too():
    env = gymnasium.make("AgentR1/HotpotQA-StepPO-v0", split="test")
    env.reset(seed=0)
    saved = snapshot(env)
    call = '<tool_call>{"name": "search", "arguments": {"query": "river"}}</tool_call>'
    first = env.step(call)[0]
    env.step("x")
    restore(env, saved)
    assert env.step(call)[0] == first


def test_messages_keep_their_identity_and_snapshots_do_not_copy_them():
    env = w.AppendHistory(gymnasium.make(ROOMS))
    env.reset(seed=0)
    before, *_ = env.step("a")
    saved = snapshot(env)
    env.step("b")
    restore(env, saved)
    after, *_ = env.step("c")
    assert all(new is old for new, old in zip(after, before, strict=False))


# The argument that brings an env's large read-only data, and the attributes that hold them.
_SHARED = {
    "HotpotQA": ({"retrieval": "corpus"}, "_corpus"),
    "WebShop": ({}, "_catalogue"),
    "PaperSearch": ({}, "backend"),
    "ALFWorld": ({}, "tasks"),
}


@pytest.mark.parametrize(
    "env_id", [*(f"AgentR1/{name}-v0" for name in _SHARED), *(recipe.id for recipe in recipes.RECIPES)]
)
def test_a_deep_copy_goes_its_own_way_and_shares_the_data(env_id):
    arguments, data = _SHARED[env_id.split("/")[1].split("-")[0]]
    env = gymnasium.make(env_id, split="test", **arguments)
    env.reset(options={"task": 1})
    twin = copy.deepcopy(env)
    assert twin.unwrapped.tasks is env.unwrapped.tasks
    assert getattr(twin.unwrapped, data) is getattr(env.unwrapped, data)
    before = env.unwrapped.get_state()
    command = env.unwrapped.expert_action()
    said = twin.step(w.reply_for(twin, command))
    assert env.unwrapped.get_state() == before
    assert env.step(w.reply_for(env, command)) == said
