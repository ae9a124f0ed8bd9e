"""The templates that TRL ships: the originals of many models."""

from pathlib import Path

import pytest
import trl

from agent_r1_trainer.prompts import PromptBuilder

FOLDER = Path(trl.__file__).parent / "chat_templates"
NAMES = ["qwen2_5", "qwen3", "qwen3_training", "qwen3_instruct_2507", "llama3_1", "gemma", "gemma3", "deepseekv3"]
NAMES += ["deepseek_r1_distill", "glm4moe", "phi3_5", "cohere2", "gptoss", "lfm2"]


@pytest.mark.parametrize("thought", ["", "<think>\nωψ\n</think>\n\n"], ids=["plain", "thinking"])
@pytest.mark.parametrize("name", [name for name in NAMES if (FOLDER / f"{name}.jinja").exists()])
def test_three_turns(chat_tokenizer, name, thought):
    tokenizer = chat_tokenizer((FOLDER / f"{name}.jinja").read_text(encoding="utf-8"))
    tokenizer.bos_token = "<|endoftext|>"
    builder = PromptBuilder(tokenizer)
    messages = [{"role": "user", "content": "Which river?"}]
    prompt = builder.first(messages)
    assert prompt == tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    for turn in range(3):
        reply = f"{thought}search[river {turn}]"
        ids = tokenizer(reply, add_special_tokens=False)["input_ids"]
        messages = [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": f"none {turn}"}]
        following, extends = builder.next(messages, reply, ids)
        assert extends and following[: len(prompt) + len(ids)] == prompt + ids
        glue = tokenizer.decode(following[len(prompt) + len(ids) :])
        whole = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        assert whole.endswith(f"search[river {turn}]" + glue)
        prompt = following


def test_the_originals_of_the_table_are_there():
    missing = [name for name in ("qwen2_5", "qwen3", "qwen3_instruct_2507") if not (FOLDER / f"{name}.jinja").exists()]
    assert not missing
