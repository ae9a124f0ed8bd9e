"""Templates that trim, open a thinking span, put a space before the end token, or repeat what was said."""

import pytest

from agent_r1_trainer.prompts import PromptBuilder


def play(tokenizer, reply, ids, *, role="user", history_thinking="keep"):
    """The first prompt and the second, after one reply."""
    builder = PromptBuilder(tokenizer, history_thinking=history_thinking)
    messages = [{"role": "user", "content": "Which river?"}]
    first = builder.first(messages)
    messages = [*messages, {"role": "assistant", "content": reply}, {"role": role, "content": "none"}]
    return first, *builder.next(messages, reply, ids)


def encode(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def test_a_trimming_template_does_not_trim_a_response(chat_tokenizer):
    tokenizer = chat_tokenizer("trims")
    ids = encode(tokenizer, "  search[river] \n\n")
    reply = tokenizer.decode(ids)
    first, second, extends = play(tokenizer, reply, ids)
    assert extends and second[: len(first) + len(ids)] == first + ids
    glue = "<|im_end|><|im_start|>user\n\nnone<|im_end|><|im_start|>assistant\n\n"
    assert second[len(first) + len(ids) :] == encode(tokenizer, glue)


@pytest.mark.parametrize("ended", [True, False])
def test_a_span_opened_by_the_prompt_is_kept(chat_tokenizer, ended):
    tokenizer = chat_tokenizer("opens_thinking")
    ids = encode(tokenizer, "ωψ\n</think>\n\nsearch[river]" + ("<|im_end|>" if ended else ""))
    first, second, extends = play(tokenizer, tokenizer.decode(ids, skip_special_tokens=True), ids)
    assert extends
    assert tokenizer.decode(second[len(first) + len(ids) :]) == (
        ("" if ended else "<|im_end|>") + "<|im_start|>user\nnone\n<|im_start|>assistant\n<think>\n"
    )


@pytest.mark.parametrize("text", ["ωψ\n</think>\n\nsearch[river]", "ωψ"], ids=["closed", "cut while thinking"])
def test_a_span_opened_by_the_prompt_is_stripped(chat_tokenizer, text):
    tokenizer = chat_tokenizer("opens_thinking")
    ids = encode(tokenizer, text)
    _, second, extends = play(tokenizer, tokenizer.decode(ids), ids, history_thinking="strip")
    assert not extends
    answer = "search[river]" if "search" in text else ""
    assert tokenizer.decode(second) == (
        f"<|im_start|>user\nWhich river?\n<|im_start|>assistant\n{answer}<|im_end|><|im_start|>user\nnone\n"
        "<|im_start|>assistant\n<think>\n"
    )


@pytest.mark.parametrize(
    ("stop", "glue"),
    [
        ("<|im_end|>", "[INST] none [/INST]"),
        ("", " <|im_end|>[INST] none [/INST]"),
        ("<|endoftext|>", " <|im_end|>[INST] none [/INST]"),
    ],
)
def test_a_space_before_the_end_token(chat_tokenizer, stop, glue):
    tokenizer = chat_tokenizer("spaced_end")
    ids = encode(tokenizer, "search[river]" + stop)
    first, second, extends = play(tokenizer, tokenizer.decode(ids, skip_special_tokens=True), ids)
    assert extends
    assert tokenizer.decode(second[len(first) + len(ids) :]) == glue


def test_a_template_without_turn_ends(chat_tokenizer):
    tokenizer = chat_tokenizer("{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}")
    ids = [*encode(tokenizer, "search[river]\n"), tokenizer.eos_token_id]
    first, second, extends = play(tokenizer, tokenizer.decode(ids, skip_special_tokens=True), ids)
    assert extends
    assert tokenizer.decode(second[len(first) + len(ids) :]) == "\nuser: none\n"


def test_a_template_that_repeats_replies_is_rendered_afresh(chat_tokenizer):
    tokenizer = chat_tokenizer("{% for m in messages %}{{ m.content + m.content }}{% endfor %}")
    ids = encode(tokenizer, "search[river]<|im_end|>")
    _, second, extends = play(tokenizer, "".join(["search", "[river]"]), ids)
    assert tokenizer.decode(second) == "Which river?Which river?search[river]search[river]nonenone"
    assert not extends


def test_a_tokenizer_that_puts_a_space_before_what_it_encodes():
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<unk>", "<s>", "</s>", "▁", "\n", *"abcdefghijklmnopqrstuvwxyz[]:?"]
    inner = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>"))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", eos_token="</s>")
    tokenizer.chat_template = "{% for m in messages %}{{ m.role + ':' + m.content + '\n' }}{% endfor %}"
    ids = [tokenizer.convert_tokens_to_ids(c) for c in "ab"]
    first, second, extends = play(tokenizer, "ab", ids)
    assert extends
    # A rendering of the whole conversation has no space there either.
    assert second[len(first) + 2 :] == [tokenizer.convert_tokens_to_ids(c) for c in "\nuser:none\n"]
