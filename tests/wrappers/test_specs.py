"""Specs are JSON and rebuild the whole stack in a fresh process."""

import copy
import json
import subprocess
import sys

import agent_r1_wrappers as w
import gymnasium
import pytest
from agent_r1_wrappers import recipes
from gymnasium.envs.registration import EnvSpec

from tests.helpers.text_envs import ROOMS

EPISODE = """
import json, sys
import gymnasium
from gymnasium.envs.registration import EnvSpec
spec, replies = json.loads(sys.stdin.read())
env = gymnasium.make(EnvSpec.from_json(spec))
seen = [env.reset(seed=5)[0]]
for reply in replies:
    seen.append(env.step(reply)[:4])
print(json.dumps([str(env), repr(env.observation_space), env.spec.to_json() == spec, seen]))
"""


def run(env, replies):
    spec = env.spec.to_json()
    seen = [env.reset(seed=5)[0], *(env.step(reply)[:4] for reply in replies)]
    fresh = subprocess.run(
        [sys.executable, "-c", EPISODE], input=json.dumps([spec, replies]), text=True, capture_output=True, check=True
    )
    return [str(env), repr(env.observation_space), True, json.loads(json.dumps(seen))], json.loads(fresh.stdout)


def test_a_tall_stack_in_a_fresh_process(tmp_path):
    env = gymnasium.make("AgentR1/HotpotQA-v0", split="test")
    env = w.InvalidActionPenalty(w.WrapObservation(w.ExplainInvalid(w.ParseToolCalls(env)), before="> "))
    env = w.SuccessBonus(w.AugmentContext(env, remaining_turns=True, notes="n"), 2.0)
    env = w.AppendHistory(w.ParseTags(env, think="t"), system="s")
    env = w.SuccessReward(w.TruncateHistory(w.SummarizeHistory(env, after_turns=1, keep_turns=0), tokens=400), 3.0)
    env = w.RecordTrajectory(env, tmp_path)
    here, there = run(
        env, ["a", '<action><tool_call>{"name": "search", "arguments": "river"}</tool_call></action>', "b"]
    )
    assert here == there


@pytest.mark.parametrize("env_id", [recipe.id for recipe in recipes.RECIPES])
def test_recipes_in_a_fresh_process(env_id):
    replies = ["<search>river</search>", "Action: search[river]", "?"]
    if "PaperSearch" in env_id:  # where a reply without a call ends the episode
        replies = ['<tool_call>{"name": "search", "arguments": {"query": "river"}}</tool_call>', "?"]
    here, there = run(gymnasium.make(env_id), replies)
    assert here == there


def test_the_module_of_a_recipe_can_be_named_in_its_id():
    program = "import gymnasium; print(gymnasium.make('agent_r1_wrappers:AgentR1/HotpotQA-ReAct-v0').spec.id)"
    result = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    assert result.stdout == "AgentR1/HotpotQA-ReAct-v0\n"


def test_every_wrapper_records_its_arguments(tmp_path):
    text, chat = gymnasium.make(ROOMS), w.AppendHistory(gymnasium.make(ROOMS))
    tools = gymnasium.make("AgentR1/HotpotQA-v0")
    cases = {
        w.AppendHistory: (text, {"system": "s", "observation_role": "tool", "max_length": 2000}),
        w.AugmentContext: (
            text,
            {"admissible_actions": False, "remaining_turns": True, "notes": "n", "retrieve": "operator:concat",
             "max_turns": 3, "max_length": 50},
        ),
        w.ExplainInvalid: (text, {"template": "{reason}!"}),
        w.HtmlToText: (text, {"separator": " / ", "render": "operator:index", "max_length": 99}),
        w.InvalidActionPenalty: (text, {"penalty": 0.5, "only_malformed": True}),
        w.ParseReAct: (text, {"finish_tool": "f", "instruct": False}),
        w.ParseTags: (
            text, {"think": "t", "action": "a", "require_think": True, "unclosed": "accept", "instruct": False}
        ),
        w.ParseToolCalls: (
            tools, {"schemas": "none", "no_call": "finish", "finish_tool": "answer", "command_tool": "do"}
        ),
        w.ParseToolTags: (
            tools,
            {"tags": {"find": "search"}, "think": None, "unclosed": "accept", "first_only": True, "instruct": False},
        ),
        w.RecordTrajectory: (text, {"folder": str(tmp_path)}),
        w.RewriteContext: (
            chat,
            {"template": "x", "variables": "operator:index", "fit": "turns", "tokens": 9,
             "length": "operator:length_hint", "length_of": "messages"},
        ),
        w.SuccessBonus: (text, {"value": 2.0}),
        w.SuccessReward: (text, {"value": 2.0}),
        w.SummarizeHistory: (
            chat, {"summarize": "operator:concat", "after_turns": 3, "keep_turns": 2, "heading": "h"}
        ),
        w.TruncateHistory: (
            chat, {"turns": 2, "tokens": 9, "length": "operator:length_hint", "length_of": "messages"}
        ),
        w.WrapObservation: (text, {"before": "b", "after": "a", "first": True}),
    }  # fmt: skip
    wrappers = {getattr(w, name) for name in w.__all__ if isinstance(getattr(w, name), type)}
    wrappers = {kind for kind in wrappers if issubclass(kind, gymnasium.Wrapper)}
    assert wrappers - {w.ActionFormat, w.ContextOperation} == set(cases)
    for kind, (below, arguments) in cases.items():
        spec = kind(below, **arguments).spec
        assert spec.additional_wrappers[-1].kwargs == arguments
        assert EnvSpec.from_json(spec.to_json()).additional_wrappers == spec.additional_wrappers


def test_live_callables_are_shared_by_spec_and_rebuilt_env():
    class Model:
        def __call__(self, messages):
            return "summary"

        def __deepcopy__(self, memo):
            raise AssertionError("a live object must not be copied")

    env = w.SummarizeHistory(w.AppendHistory(gymnasium.make(ROOMS)), summarize=Model(), after_turns=1, keep_turns=0)
    spec = copy.deepcopy(w.TruncateHistory(env, turns=3).spec)
    again = gymnasium.make(spec)
    again.reset(seed=0)
    again.step("a")
    assert again.step("b")[0][0]["content"].endswith("summary")
