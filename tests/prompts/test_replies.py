"""What a reply says: all of it but the stop token that ended it and padding, whatever the tokenizer calls special."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import pytest
from agent_r1_wrappers import AppendHistory, ParseReAct, ParseTags, ParseToolCalls, ParseToolTags, reply_for
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agent_r1_trainer.environments.factory import EnvFactory
from agent_r1_trainer.flows import AgentEnvLoop, Assignment, SingleStepFlow
from agent_r1_trainer.generation import Generation, SamplingParams
from agent_r1_trainer.prompts import reply_text
from tests.helpers.text_envs import RoomsEnv

MARKS = ["<tool_call>", "</tool_call>", "<action>", "</action>", "<search>", "</search>", "<answer>", "</answer>"]
CHANNELS = ["<|channel|>", "<|message|>"]


def special(tokenizer: Any, marks: Sequence[str] = MARKS) -> Any:
    """Make the tokenizer count these, and the marks of thinking, as special."""
    tokenizer.add_tokens([AddedToken(mark, special=True) for mark in (*marks, "<think>", "</think>")], True)
    return tokenizer


class Expert:
    """Replies as the expert of the one environment that was built last."""

    def __init__(self, make_env: Any, tokenizer: Any) -> None:
        self.make_env, self.tokenizer = make_env, tokenizer

    def build(self) -> gymnasium.Env:
        self.env = self.make_env()
        return self.env

    def generate(self, prompts: Any, sampling: SamplingParams, seeds: Sequence[int]) -> list[Generation]:
        text = reply_for(self.env, self.env.unwrapped.expert_action(), "So.") + self.tokenizer.eos_token
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [Generation(ids, [0.0] * len(ids), "stop")]


STACKS = {
    "tool calls": lambda: AppendHistory(ParseToolCalls(gymnasium.make("AgentR1/HotpotQA-v0"))),
    "tags": lambda: AppendHistory(ParseTags(gymnasium.make("AgentR1/ALFWorld-v0"))),
    "tool tags": lambda: AppendHistory(ParseToolTags(gymnasium.make("AgentR1/HotpotQA-v0"))),
    "react": lambda: AppendHistory(ParseReAct(gymnasium.make("AgentR1/HotpotQA-v0"))),
    "native": EnvFactory("AgentR1/HotpotQA-v0", recipe="native"),
}


@pytest.mark.parametrize("stack", STACKS)
def test_marks_that_the_tokenizer_counts_as_special_reach_the_environment(chat_tokenizer, stack):
    tokenizer = special(chat_tokenizer("qwen2_5"))
    assert set(tokenizer.convert_tokens_to_ids(MARKS)) <= set(tokenizer("".join(MARKS))["input_ids"])
    expert = Expert(STACKS[stack], tokenizer)
    loop = AgentEnvLoop(expert.build, tokenizer, max_prompt_length=10**6, concurrency=1)
    sampling = SamplingParams(10**4, (tokenizer.eos_token_id,))
    loop.check(sampling)
    (trajectory,) = loop.run([Assignment(0, 0)], expert, sampling)
    assert trajectory.success and not any(step.invalid for step in trajectory.steps)


def test_only_the_sampled_stop_token_and_padding_are_dropped(chat_tokenizer):
    tokenizer = special(chat_tokenizer("qwen2_5"), CHANNELS)
    start, end, pad = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    channel, message = tokenizer.convert_tokens_to_ids(CHANNELS)
    word = tokenizer("river")["input_ids"]
    assert reply_text(tokenizer, [channel, *word, message, *word, end], (end,)) == "<|channel|>river<|message|>river"
    assert reply_text(tokenizer, [*word, start, *word], (end,)) == "river<|im_start|>river"
    assert reply_text(tokenizer, [*word, end, end], (end,)) == "river<|im_end|>"
    assert reply_text(tokenizer, [*word, end], ()) == "river<|im_end|>"
    assert reply_text(tokenizer, [pad, *word, pad, pad], (end,)) == "river"
    assert reply_text(tokenizer, [end], (end,)) == reply_text(tokenizer, [], (end,)) == ""


def test_a_single_step_reads_replies_in_the_same_way(chat_tokenizer):
    tokenizer, heard = special(chat_tokenizer("qwen2_5")), []
    ids = tokenizer("<answer>river</answer>" + tokenizer.eos_token)["input_ids"]

    class Fixed:
        def generate(self, prompts: Any, sampling: Any, seeds: Any) -> list[Generation]:
            return [Generation(ids, None, "stop")]

    flow = SingleStepFlow(
        ["Which?"], lambda task, text: float(bool(heard.append(text)) + 1), tokenizer, max_prompt_length=100
    )
    (trajectory,) = flow.run([Assignment(0, 0)], Fixed(), SamplingParams(99, (tokenizer.eos_token_id,)))
    assert heard == ["<answer>river</answer>"] and trajectory.success


def words(*vocabulary: str, lower: bool = False) -> PreTrainedTokenizerFast:
    """A word-level tokenizer, which writes words with a space between them."""
    known = ["<pad>", "<end>", "<unk>", *vocabulary]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if lower:
        inner.normalizer = normalizers.Lowercase()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", unk_token="<unk>")
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }} {{ m.content }} <end> {% endfor %}"
    return tokenizer


def check(make_env: Any, tokenizer: Any, *stop_ids: int) -> None:
    AgentEnvLoop(make_env, tokenizer, max_prompt_length=99).check(SamplingParams(9, (1, *stop_ids)))


def test_a_tokenizer_that_cannot_write_the_format_is_refused_with_both_texts():
    with pytest.raises(ValueError, match=r"<action>look</action>.*comes back as '<unk>'.*no <action>"):
        check(lambda: AppendHistory(ParseTags(RoomsEnv())), words("look"))


def test_a_stop_token_that_the_format_needs_is_refused(chat_tokenizer):
    tokenizer = special(chat_tokenizer("qwen2_5"))
    make_env = lambda: AppendHistory(ParseTags(RoomsEnv()))  # noqa: E731
    check(make_env, tokenizer)
    with pytest.raises(ValueError, match=r"comes back as '<action>look'.*not closed.*stop_strings"):
        check(make_env, tokenizer, tokenizer.convert_tokens_to_ids("</action>"))
    check(lambda: AppendHistory(ParseTags(RoomsEnv(), unclosed="accept")), tokenizer, *tokenizer("</action>").input_ids)


def test_where_the_stack_says_nothing_nothing_is_refused():
    check(lambda: AppendHistory(RoomsEnv()), words("left", "right"))
    check(lambda: AppendHistory(ParseTags(RoomsEnv())), words("go", "to"))  # cannot even write the command
