"""Where replies end: at the template's own end of a turn, at ids that were asked for, and never beyond."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agent_r1_trainer.context_settings import ContextSettings
from agent_r1_trainer.models import stop_token_ids
from agent_r1_trainer.prompts import PromptBuilder
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.steppo_trainer import StepPOTrainer
from tests.helpers.training import DEFAULTS, CueEnv, make_model, make_tokenizer, make_trainer

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SHIPPED = Path(trl.__file__).parent / "chat_templates"


def tokenizer_of(*marks: str, template: str = CHATML, eos: str = "<|endoftext|>", special: bool = True) -> Any:
    """A tokenizer of bytes with these marks."""
    inner = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])
    )
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(eos)])
    inner.add_tokens([AddedToken(mark, special=special) for mark in marks])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=eos, pad_token=eos)
    tokenizer.chat_template = template
    return tokenizer


def model_of(tokenizer: Any) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            head_dim=8,
            num_attention_heads=4,
            num_key_value_heads=2,
            eos_token_id=tokenizer.eos_token_id,
            max_position_embeddings=256,
        )  # fmt: skip
    )


@pytest.mark.parametrize("special", [True, False])
def test_the_turn_end_of_a_base_model_becomes_a_stop_id_and_is_said(caplog, special):
    tokenizer = tokenizer_of("<|im_start|>", "<|im_end|>", special=special)
    model = model_of(tokenizer)
    with caplog.at_level(logging.WARNING):
        found = stop_token_ids(model, tokenizer)
    assert tokenizer.convert_ids_to_tokens(list(found)) == ["<|endoftext|>", "<|im_end|>"]
    assert [record.message.count("'<|im_end|>'") for record in caplog.records] == [1]
    caplog.clear()
    model.generation_config.eos_token_id = list(found)
    assert stop_token_ids(model, tokenizer) == found and not caplog.records, "it was declared"


def test_no_reply_runs_into_a_turn_that_the_policy_invents(tmp_path):
    tokenizer = tokenizer_of("<|im_start|>", "<|im_end|>")
    model, end = model_of(tokenizer), tokenizer.convert_tokens_to_ids("<|im_end|>")
    with torch.no_grad():  # the turn end follows everything, as it does with a model that learnt the template
        model.lm_head.weight[end] += 3 * model.lm_head.weight.abs().mean() * torch.sign(torch.randn(32))
    settings = {**DEFAULTS, "max_completion_length": 200, "rollout_batch_size": 8, "max_steps": 4}
    settings |= {"num_ppo_epochs": 1, "num_minibatches": 4, "max_prompt_length": 56}
    trainer = StepPOTrainer(model, StepPOConfig(str(tmp_path), **settings), CueEnv, processing_class=tokenizer)
    trainer.train()
    steps = [step for trajectory in trainer._experience.trajectories for step in trajectory.steps]
    ended = [step for step in steps if end in step.response_ids]
    assert ended and all(step.response_ids.index(end) == len(step.response_ids) - 1 for step in ended)
    assert all(step.finish == "stop" and "<|im_end|>" not in step.text for step in ended)


TURN_ENDS = {
    "qwen2_5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "llama3_1": "<|eot_id|>",
    "gemma": "<end_of_turn>",
    "gemma3": "<end_of_turn>",
    "phi3": "<|end|>",
    "phi3_5": "<|end|>",
    "gptoss": "<|return|>",
    "glm4moe": "<|user|>",
    "lfm2": "<|im_end|>",
}
OTHERS = [
    "<|im_start|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|start|>",
]
OTHERS += ["<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<think>", "</think>", "<|START_OF_TURN_TOKEN|>"]
OTHERS += ["<|CHATBOT_TOKEN|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"]


@pytest.mark.parametrize("name", [name for name in TURN_ENDS if (SHIPPED / f"{name}.jinja").exists()])
def test_the_turn_ends_of_model_families(name):
    template = (SHIPPED / f"{name}.jinja").read_text(encoding="utf-8")
    tokenizer = tokenizer_of(*dict.fromkeys([*TURN_ENDS.values(), *OTHERS]), template=template, eos="<|endoftext|>")
    found = tokenizer.convert_ids_to_tokens(list(stop_token_ids(model_of(tokenizer), tokenizer)))
    assert set(found) == {"<|endoftext|>", TURN_ENDS[name]}


def test_a_turn_end_of_several_ids_is_known_by_any_and_never_said_twice():
    template = (SHIPPED / "cohere2.jinja").read_text(encoding="utf-8")
    tokenizer = tokenizer_of(*OTHERS, template=template, eos="<|END_OF_TURN_TOKEN|>")
    assert stop_token_ids(model_of(tokenizer), tokenizer) == (tokenizer.eos_token_id,)
    first = [{"role": "user", "content": "Which river?"}]
    reply = "".join(["the ", "Ob"])
    second = [*first, {"role": "assistant", "content": reply}, {"role": "user", "content": "Sure?"}]
    whole = tokenizer.apply_chat_template(second, add_generation_prompt=True, tokenize=False)
    for sampled in ("", "<|END_RESPONSE|>", "<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"):
        builder = PromptBuilder(tokenizer)
        prompt = builder.first(first)
        ids = tokenizer(reply + sampled, add_special_tokens=False)["input_ids"]
        following, extends = builder.next(second, reply, ids)
        glue = tokenizer.decode(following[len(prompt) + len(ids) :])
        assert extends and whole.endswith(reply + sampled + glue)


@pytest.mark.parametrize(
    "template",
    [
        CHATML,  # of whose marks the tokenizer knows none: their letters are no single id
        "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}",
        "{{ raise_exception('no') }}",
    ],
)
def test_a_turn_end_that_is_no_single_id_adds_nothing(template):
    tokenizer = tokenizer_of(template=template)
    assert stop_token_ids(model_of(tokenizer), tokenizer) == (tokenizer.eos_token_id,)


def test_stop_token_ids_add_to_what_is_declared(tmp_path):
    trainer = make_trainer(tmp_path, stop_token_ids=[7, 1, 9])
    assert trainer.sampling.stop_token_ids == (1, 7, 9)
    trainer.save_model(str(tmp_path / "model"))
    assert ContextSettings.load(tmp_path / "model").stop_token_ids == [7, 1, 9], "the benchmark ends replies there too"
    with pytest.raises(ValueError, match=r"stop_token_ids: \[12, -1\] are no ids of the tokenizer, which has 12"):
        stop_token_ids(make_model(), make_tokenizer(), more=[3, 12, -1])
    for wrong in ("<end>", 3, ["<end>"], [True]):
        with pytest.raises(ValueError, match="stop_token_ids must be a list of token ids"):
            StepPOConfig(str(tmp_path), **{**DEFAULTS, "stop_token_ids": wrong})


def test_demonstrations_end_their_turns_as_the_template_does():
    tokenizer = tokenizer_of("<|im_start|>", "<|im_end|>")
    builder = PromptBuilder(tokenizer)
    builder.first("Which river?")
    stops = sorted(stop_token_ids(model_of(tokenizer), tokenizer), key=lambda token: token != tokenizer.eos_token_id)
    assert tokenizer.decode(builder.reply_ids("the Ob", stops)) == "the Ob<|im_end|>"
