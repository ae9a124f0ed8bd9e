"""The recipe of paper search: a prompt rebuilt from state, ended by a reply without a call."""

import gymnasium
from agent_r1_wrappers import reply_for
from agent_r1_wrappers.fitting import estimate_tokens


def make(**kwargs):
    return gymnasium.make("AgentR1/PaperSearch-StepPO-v0", split="test", **kwargs)


def call(name, **arguments):
    import json

    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_the_prompt_is_rebuilt_from_the_state():
    env = make()
    messages, info = env.reset(options={"task": 0})
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[1]["content"].startswith(f"Query: {info['instruction']}\n\nSearched so far:\n(nothing)\n")
    messages, *_ = env.step(reply_for(env, env.unwrapped.expert_action()))
    messages, *_, info = env.step(
        call("expand", paper_id=env.unwrapped.get_state()["world"].pool.__iter__().__next__())
    )
    prompt = messages[1]["content"]
    assert len(messages) == 2 and prompt.count("\n- ") == 6 and "3 turns are left" in prompt
    shown = [line for line in prompt.split("\n") if "[EXP] " in line or "[NEW] " in line]
    assert len(shown) == len(info["pool"]) <= 20 and "[EXP]" in prompt
    scores = [float(line.partition("(")[2][:4]) for line in shown]
    assert scores == sorted(scores, reverse=True)
    for paper in info["pool"]:
        assert paper["title"] in prompt and paper["abstract"] in prompt
    messages, *_ = env.step("<tool_call>{</tool_call>")
    assert "Wrong in earlier replies:\n- " in messages[1]["content"]


def test_a_reply_without_a_call_ends_the_episode():
    env = make()
    env.reset(options={"task": 0})
    env.step(call("search", query="forecasting"))
    *_, reward, terminated, _, info = env.step("<think>That is all.</think>\nI have the papers.")
    assert terminated and reward == 0.0 and info["action"] == "finish[I have the papers.]"


def test_five_calls_at_once_and_no_more():
    env = make()
    env.reset(options={"task": 0})
    *_, info = env.step("".join(call("search", query=f"q{n}") for n in range(6)))
    assert "at most 5" in info["invalid_action"]
    *_, info = env.step("".join(call("search", query=f"q{n}") for n in range(5)))
    assert len(info["calls"]) == 5


def test_the_least_relevant_papers_are_left_out_first():
    env = make()
    rewriting = env
    while type(rewriting).__name__ != "RewriteContext":
        rewriting = rewriting.env
    rewriting._tokens = 900
    env.reset(options={"task": 0})
    messages, *_, info = env.step(reply_for(env, env.unwrapped.expert_action()))
    prompt = messages[1]["content"]
    assert estimate_tokens(messages[0]["content"]) + estimate_tokens(prompt) <= 900
    kept = [paper for paper in info["pool"] if f"[{paper['id']}]" in prompt]
    assert 0 < len(kept) < len(info["pool"]) and kept == info["pool"][: len(kept)]
