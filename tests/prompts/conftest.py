"""A byte-level tokenizer made on the spot, and the chat templates beside this file."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TEMPLATES = Path(__file__).parent / "templates"
CORPUS = [
    "Which river flows through the town where the founder of the company was born? search[river] answer[yes]",
    "user assistant system tool <tool_response> </tool_response> Functions: You are a helpful small test.",
    "I could look it up, or I could answer now; the passage says that the mayor was born in the town.",
]


@pytest.fixture(scope="session")
def trained() -> Tokenizer:
    """A byte-level BPE with the special tokens of a chat model."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", special=False), AddedToken("</think>", special=False)])
    return tokenizer


@pytest.fixture(scope="session")
def chat_tokenizer(trained: Tokenizer) -> Callable[[str | None], PreTrainedTokenizerFast]:
    """Make a tokenizer with one of the templates (the name of a file, a template itself, or None for none)."""

    def make(template: str | None) -> PreTrainedTokenizerFast:
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_str(trained.to_str()),
            eos_token="<|im_end|>",
            pad_token="<|endoftext|>",
            extra_special_tokens=["<|im_start|>"],
        )
        if template is not None:
            is_name = "{" not in template
            tokenizer.chat_template = (TEMPLATES / f"{template}.jinja").read_text("utf-8") if is_name else template
        return tokenizer

    return make
