"""Prompts of a real environment under real context wrappers, and the merge units that come out."""

import gymnasium
import pytest
from agent_r1_wrappers import (
    AppendHistory,
    AugmentContext,
    ParseToolCalls,
    RewriteContext,
    SummarizeHistory,
    TruncateHistory,
)

import agent_r1_envs  # noqa: F401  (registers the environments)
from agent_r1_trainer.packing import merge_units
from agent_r1_trainer.prompts import PromptBuilder
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory

REWRITE = "{{ instruction }}\n{% for action in actions %}{{ action }}\n{% endfor %}{{ observation }}"


def play(
    env, tokenizer, *, turns=4, stop="<|im_end|>", reply=lambda turn: f"<think>ω{turn}</think>search[river {turn}]"
):
    """Play one episode; every prompt is checked against the rule. Returns the observations and the trajectory."""
    observation, info = env.reset(seed=0, options={"task": 0})
    options = info.get("chat_template_kwargs", {})
    builder = PromptBuilder(tokenizer, chat_template_kwargs=options)
    prompt, extends = builder.first(observation), False
    steps, observations = [], [observation]
    for turn in range(turns):
        text = reply(turn)
        ids = tokenizer(text + stop, add_special_tokens=False)["input_ids"]
        steps.append(Step(prompt, ids, turn=turn, extends=extends))
        observation, *_, info = env.step(text)
        observations.append(observation)
        following, extends = builder.next(observation, text, ids)
        assert extends == (following[: len(prompt) + len(ids)] == prompt + ids)
        if not extends:
            fresh = tokenizer.apply_chat_template(observation, add_generation_prompt=True, return_dict=False, **options)
            assert following == fresh
        prompt = following
    return observations, Trajectory("0", steps, StopReason.TURN_LIMIT, final_prompt_ids=prompt)


def make(*layers):
    env = gymnasium.make("AgentR1/HotpotQA-v0")
    for layer in layers:
        env = layer(env)
    return env


def units(trajectory):
    return [len(unit.steps) for unit in merge_units([trajectory])]


@pytest.mark.parametrize("stop", ["<|im_end|>", "", "<|endoftext|>"])
@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("template", ["qwen3", "qwen3_2507", "qwen2_5", "smollm2"])
def test_a_whole_history_is_one_chain(chat_tokenizer, template, role, stop):
    tokenizer = chat_tokenizer(template)
    env = make(lambda env: AppendHistory(env, system="Answer.", observation_role=role))
    observations, trajectory = play(env, tokenizer, stop=stop)
    assert units(trajectory) == [4]
    assert [step.extends for step in trajectory.steps] == [False, True, True, True]
    # The thinking that was sampled is still there, and every observation got in.
    final = tokenizer.decode(trajectory.final_prompt_ids)
    assert all(f"ω{turn}" in final for turn in range(4))
    assert all(message["content"].strip() in final for message in observations[-1] if message["role"] == role)


def test_tool_schemas_go_through_the_template(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")

    def reply(turn):
        return '<tool_call>\n{"name": "search", "arguments": {"query": "river"}}\n</tool_call>'

    env = make(ParseToolCalls, lambda env: AppendHistory(env, observation_role="tool"))
    observations, trajectory = play(env, tokenizer, reply=reply)
    assert units(trajectory) == [4]


def test_a_truncated_history_breaks_where_turns_fall_out(chat_tokenizer):
    env = make(AppendHistory, lambda env: TruncateHistory(env, turns=2))
    _, trajectory = play(env, chat_tokenizer("qwen2_5"))
    assert units(trajectory) == [3, 1]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param(lambda env: RewriteContext(env, REWRITE), [1, 1, 1, 1], id="rewritten"),
        pytest.param(lambda env: AugmentContext(env, remaining_turns=True), [1, 1, 1, 1], id="last message augmented"),
        pytest.param(lambda env: TruncateHistory(env, turns=1), [2, 1, 1], id="last turn only"),
        pytest.param(lambda env: SummarizeHistory(env, after_turns=2, keep_turns=1), [3, 1], id="summarized"),
    ],
)
def test_chains_break_where_the_context_is_rewritten(chat_tokenizer, operation, expected):
    _, trajectory = play(make(AppendHistory, operation), chat_tokenizer("smollm2"))
    assert units(trajectory) == expected


def test_a_plain_env_has_no_history(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen2_5")
    env = gymnasium.make("AgentR1/HotpotQA-v0")
    observation, _ = env.reset(seed=0)
    builder = PromptBuilder(tokenizer)
    prompt = builder.first(observation)
    assert observation in tokenizer.decode(prompt)
    text = "search[river]"
    observation, *_ = env.step(text)
    following, extends = builder.next(observation, text, tokenizer(text)["input_ids"])
    assert not extends and "search[river]" not in tokenizer.decode(following).replace(observation, "")
