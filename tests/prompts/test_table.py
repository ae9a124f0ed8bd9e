"""Token in, token out: every template, role, thinking and ending of a reply."""

import itertools
from dataclasses import dataclass

import pytest

from agent_r1_trainer.prompts import PromptBuilder

# What each template puts between the end of a reply's turn and the next reply, written by hand.
FOLLOWS = {
    "qwen3": {
        "user": "\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
        "tool": "\n<|im_start|>user\n<tool_response>\n{}\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
    },
    "smollm2": {
        "user": "\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
        "tool": "\n<|im_start|>tool\n{}<|im_end|>\n<|im_start|>assistant\n",
    },
}
FOLLOWS["qwen3_2507"] = FOLLOWS["qwen2_5"] = FOLLOWS["qwen3"]

THOUGHT = "ωψχ ξζ"  # its bytes occur nowhere else, so neither do its ids
ENDINGS = ("eos", "length", "other stop", "invalid utf-8")


@dataclass
class Reply:
    """A sampled reply: its ids, the text that the env got, and that text without thinking, written by hand."""

    ids: list[int]
    text: str
    answer: str


def sample(tokenizer, thinking: bool, ending: str, turn: int) -> Reply:
    start = f"<think>\n{THOUGHT}\n</think>\n\n" if thinking else ""
    answer = f"search[river {turn}]"
    if ending == "length" and thinking and turn == 1:
        start, answer = f"<think>\n{THOUGHT}", ""  # cut while it was thinking
    ids = tokenizer(start + answer, add_special_tokens=False)["input_ids"]
    if ending == "invalid utf-8":
        ids = [*ids, tokenizer.convert_tokens_to_ids("â")]  # the byte 0xE2 alone
        answer += "\ufffd"
    stop = {"eos": "<|im_end|>", "invalid utf-8": "<|im_end|>", "other stop": "<|endoftext|>"}.get(ending)
    if stop is not None:
        ids = [*ids, tokenizer.convert_tokens_to_ids(stop)]
    text = tokenizer.decode(ids, skip_special_tokens=True)
    assert text == start + answer
    return Reply(ids, text, answer)


CASES = list(itertools.product(FOLLOWS, ("user", "tool"), (False, True), ENDINGS))


@pytest.mark.parametrize(("template", "role", "thinking", "ending"), CASES)
def test_keep_extends_on_ids(chat_tokenizer, template, role, thinking, ending):
    tokenizer = chat_tokenizer(template)
    builder = PromptBuilder(tokenizer, history_thinking="keep")
    messages = [{"role": "user", "content": "Which river?"}]
    prompt = builder.first(messages)
    assert prompt == tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    for turn in range(3):
        reply = sample(tokenizer, thinking, ending, turn)
        observation = f"the passage of turn {turn} says that"
        messages = [*messages, {"role": "assistant", "content": reply.text}, {"role": role, "content": observation}]
        following, extends = builder.next(messages, reply.text, reply.ids)
        assert extends
        assert following[: len(prompt) + len(reply.ids)] == prompt + reply.ids
        ended = reply.ids[-1] == tokenizer.eos_token_id
        glue = ("" if ended else "<|im_end|>") + FOLLOWS[template][role].format(observation)
        assert following[len(prompt) + len(reply.ids) :] == tokenizer(glue, add_special_tokens=False)["input_ids"]
        prompt = following


@pytest.mark.parametrize(("template", "role", "thinking", "ending"), CASES)
def test_strip_equals_the_template_and_holds_no_thought(chat_tokenizer, template, role, thinking, ending):
    tokenizer = chat_tokenizer(template)
    builder = PromptBuilder(tokenizer, history_thinking="strip")
    messages = [{"role": "user", "content": "Which river?"}]
    stripped = list(messages)
    builder.first(messages)
    thought = set(tokenizer(THOUGHT.replace(" ", ""), add_special_tokens=False)["input_ids"])
    for turn in range(3):
        reply = sample(tokenizer, thinking, ending, turn)
        observation = {"role": role, "content": f"the passage of turn {turn} says that"}
        messages = [*messages, {"role": "assistant", "content": reply.text}, observation]
        stripped = [*stripped, {"role": "assistant", "content": reply.answer}, observation]
        prompt, extends = builder.next(messages, reply.text, reply.ids)
        assert prompt == tokenizer.apply_chat_template(stripped, add_generation_prompt=True, return_dict=False)
        assert not thought & set(prompt)
        assert not (extends and thinking)


def test_strip_is_what_a_thinking_template_does_itself(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")
    builder = PromptBuilder(tokenizer, history_thinking="strip")
    messages = [{"role": "user", "content": "Which river?"}]
    builder.first(messages)
    reply = sample(tokenizer, True, "eos", 0)
    messages = [*messages, {"role": "assistant", "content": reply.text}, {"role": "user", "content": "none"}]
    prompt, _ = builder.next(messages, reply.text, reply.ids)
    assert prompt == tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


@pytest.mark.parametrize("enable_thinking", [True, False])
@pytest.mark.parametrize("role", ["user", "tool"])
def test_keep_with_template_arguments(chat_tokenizer, role, enable_thinking):
    tokenizer = chat_tokenizer("qwen3")
    tools = [{"type": "function", "function": {"name": "search", "parameters": {}}}]
    options = {"tools": tools, "enable_thinking": enable_thinking}
    builder = PromptBuilder(tokenizer, chat_template_kwargs=options)
    messages = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Which river?"}]
    prompt = builder.first(messages)
    assert prompt == tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False, **options)
    assert '"name": "search"' in tokenizer.decode(prompt)
    reply = sample(tokenizer, enable_thinking, "eos", 0)
    messages = [*messages, {"role": "assistant", "content": reply.text}, {"role": role, "content": "none"}]
    following, extends = builder.next(messages, reply.text, reply.ids)
    assert extends
    closing = "" if enable_thinking else "<think>\n\n</think>\n\n"
    assert tokenizer.decode(following) == (
        tokenizer.decode(prompt) + tokenizer.decode(reply.ids) + FOLLOWS["qwen3"][role].format("none") + closing
    )


def test_keep_puts_consecutive_tool_results_into_one_turn(chat_tokenizer):
    tokenizer = chat_tokenizer("qwen3")
    builder = PromptBuilder(tokenizer)
    messages = [{"role": "user", "content": "Which river?"}]
    prompt = builder.first(messages)
    reply = sample(tokenizer, False, "eos", 0)
    results = [{"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]
    following, extends = builder.next(
        [*messages, {"role": "assistant", "content": reply.text}, *results], reply.text, reply.ids
    )
    assert extends
    assert tokenizer.decode(following[len(prompt) + len(reply.ids) :]) == (
        "\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
