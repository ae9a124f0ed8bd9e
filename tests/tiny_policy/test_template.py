"""Each prompt is a strict prefix of the next, so that an episode is one sequence."""

import random

from agent_r1_trainer.packing import merge_units
from agent_r1_trainer.prompts import PromptBuilder
from agent_r1_trainer.tiny_policy import load_tiny_policy
from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import EXPERT, demonstrate, make_env
from agent_r1_trainer.tiny_policy.hotpotqa.quality import play


def test_prompts_grow_by_reply_and_observation():
    _, tokenizer = load_tiny_policy()
    conversation = demonstrate(make_env("test"), 3, EXPERT, random.Random(0))
    assert [message["role"] for message in conversation] == ["user", "assistant"] * 3
    whole = tokenizer.apply_chat_template(conversation, tokenize=False)
    previous = ""
    for turns in range(1, len(conversation), 2):
        prompt = tokenizer.apply_chat_template(conversation[:turns], tokenize=False, add_generation_prompt=True)
        assert prompt.startswith(previous) and len(prompt) > len(previous)
        previous = f"{prompt}{conversation[turns]['content']}{tokenizer.eos_token}"
    assert previous == whole


def test_the_prompt_builder_continues_where_a_fresh_rendering_would_be():
    _, tokenizer = load_tiny_policy()
    env = make_env("test")
    messages, _ = env.reset(options={"task": 5})
    builder = PromptBuilder(tokenizer)
    prompt = builder.first(messages)
    for _turn in range(2):
        reply = env.unwrapped.expert_action()
        response = [*tokenizer(reply, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        messages, *_ = env.step(reply)
        longer, extends = builder.next(messages, reply, response)
        assert extends and longer[: len(prompt) + len(response)] == prompt + response
        fresh = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert longer == list(fresh)
        prompt = longer


def test_sampled_episodes_merge_into_one_sequence_each():
    model, tokenizer = load_tiny_policy()
    episodes = play(model, tokenizer, tasks=40)
    units = merge_units(episodes)
    assert [unit.trajectory for unit in units] == list(range(40))
    assert [unit.num_steps for unit in units] == [len(episode.steps) for episode in episodes]
    assert max(len(episode.steps) for episode in episodes) > 1
