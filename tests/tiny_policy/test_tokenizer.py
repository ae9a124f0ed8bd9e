"""The tokenizer covers the language of the environment and gives it back unchanged."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_r1_envs.hotpotqa.embedded import load_panel
from agent_r1_envs.tools import parse_calls
from agent_r1_trainer.tiny_policy import load_tiny_policy
from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import environment_words, make_env
from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(environment_words())


def texts_of(split):
    for question in load_panel(split):
        yield question.question
        yield from (f"search[{paragraph.title}]" for paragraph in question.paragraphs)
        yield from (paragraph.text for paragraph in question.paragraphs)
        yield f"answer[{question.answer}]"


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_the_whole_panel_survives_encoding_and_decoding(tokenizer, split):
    texts = sorted(set(texts_of(split)))
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
    unknown = [text for text, ids in zip(texts, encoded, strict=True) if tokenizer.unk_token_id in ids]
    assert not unknown
    assert tokenizer.batch_decode(encoded) == texts


@pytest.fixture(scope="module")
def words(tokenizer):
    special = tokenizer.all_special_ids
    return [number for number in range(len(tokenizer)) if number not in special]


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_sampled_ids_survive_decoding_and_encoding(tokenizer, words, data):
    ids = data.draw(st.lists(st.sampled_from(words), max_size=12))
    assert tokenizer(tokenizer.decode(ids), add_special_tokens=False)["input_ids"] == ids


@given(text=st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_text_can_be_encoded(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert all(0 <= number < len(tokenizer) for number in ids)
    tokenizer.decode(ids)


def test_sampled_commands_are_read_by_the_grammar(tokenizer):
    words = ["search", "[", "Ada", "Barlow", "]", "\n", "search", "[", "Cedar", "Falls", "]", tokenizer.eos_token]
    text = tokenizer.decode(tokenizer.convert_tokens_to_ids(words), skip_special_tokens=True)
    assert text == "search[Ada Barlow]\nsearch[Cedar Falls]"
    env = make_env().unwrapped
    calls = parse_calls(text, env.tools, max_calls=2)
    assert [call.arguments for call in calls] == [{"query": "Ada Barlow"}, {"query": "Cedar Falls"}]


def test_what_the_environment_answers_is_known_and_comes_back(tokenizer):
    env = make_env("test").unwrapped
    observation, _ = env.reset(options={"task": 7})
    title = env.task.paragraphs[0].title
    for action in (
        f"search[{title}]",
        f"search[{title}]",
        "search[Norland yes]",
        f"search[{env.task.question}]",
        "answer[no]",
    ):
        ids = tokenizer(observation, add_special_tokens=False)["input_ids"]
        assert tokenizer.unk_token_id not in ids, observation
        assert tokenizer.decode(ids) == observation
        observation, *_ = env.step(action)


def test_a_complaint_begins_with_known_words(tokenizer):
    env = make_env("test").unwrapped
    for action in ("", "yes", "search[yes", "answer[]", "no[yes]"):
        env.reset(options={"task": 7})
        observation, _, terminated, _, info = env.step(action)
        assert info["invalid_action"] and not terminated
        ids = tokenizer(observation, add_special_tokens=False)["input_ids"]
        assert tokenizer.unk_token_id not in ids[:1]


def test_the_shipped_tokenizer_is_the_one_that_the_code_makes(tokenizer):
    _, shipped = load_tiny_policy()
    assert shipped.get_vocab() == tokenizer.get_vocab()
    assert shipped.chat_template == tokenizer.chat_template
    assert (shipped.pad_token_id, shipped.eos_token_id) == (tokenizer.pad_token_id, tokenizer.eos_token_id)
    made, loaded = (json.loads(t.backend_tokenizer.to_str()) for t in (tokenizer, shipped))
    for part in ("model", "pre_tokenizer", "decoder", "normalizer", "post_processor", "padding", "truncation"):
        assert loaded[part] == made[part], part
