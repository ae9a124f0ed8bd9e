"""When a prompt continues the last one, and when it is rendered afresh."""

import copy
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_trainer.prompts import PromptBuilder, PromptError
from agent_r1_trainer.prompts.foreign import TurnMarks
from agent_r1_trainer.prompts.glue import glue_ids, glue_text

TEMPLATES = Path(__file__).parent / "templates"


class Episode:
    """One reply after one prompt, ready for a second."""

    def __init__(self, tokenizer, **options):
        self.tokenizer = tokenizer
        self.builder = PromptBuilder(tokenizer, **options)
        self.messages = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Which river?"}]
        self.prompt = self.builder.first(self.messages)
        self.reply = "".join(["search", "[river]"])
        self.ids = [*tokenizer(self.reply)["input_ids"], tokenizer.eos_token_id]

    def render(self, messages):
        return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)

    def next(self, messages):
        return self.builder.next(messages, self.reply, self.ids)


@pytest.fixture
def episode(chat_tokenizer):
    return Episode(chat_tokenizer("qwen2_5"))


def test_equal_but_other_message_objects_are_rendered_afresh(episode):
    messages = [
        *copy.deepcopy(episode.messages),
        {"role": "assistant", "content": episode.reply},
        {"role": "user", "content": "none"},
    ]
    prompt, _ = episode.next(messages)
    assert prompt == episode.render(messages)


def test_a_reply_of_equal_text_that_is_another_object_is_rendered_afresh(episode):
    # A stop token in the reply shows which way was taken: the decoded text does not hold it.
    episode.ids = episode.ids[:-1] + [episode.tokenizer.convert_tokens_to_ids("<|endoftext|>")]
    twin = "".join([episode.reply[:3], episode.reply[3:]])
    assert twin == episode.reply and twin is not episode.reply
    messages = [*episode.messages, {"role": "assistant", "content": twin}, {"role": "user", "content": "none"}]
    prompt, extends = episode.next(messages)
    assert prompt == episode.render(messages)
    assert not extends


@pytest.mark.parametrize(
    "rewrite",
    [
        pytest.param(lambda old, reply, new: [old[0], reply, new], id="first question dropped"),
        pytest.param(lambda old, reply, new: [*old, new], id="reply dropped"),
        pytest.param(lambda old, reply, new: [*old, {**reply, "content": "search[...]"}, new], id="reply shortened"),
        pytest.param(lambda old, reply, new: [old[0], {**old[1], "content": "?"}, reply, new], id="question changed"),
        pytest.param(lambda old, reply, new: [old[0], new], id="only the last observation"),
    ],
)
def test_rewritten_contexts_are_rendered_afresh(episode, rewrite):
    reply, new = {"role": "assistant", "content": episode.reply}, {"role": "user", "content": "none"}
    messages = rewrite(episode.messages, reply, new)
    prompt, extends = episode.next(messages)
    assert prompt == episode.render(messages)
    assert not extends
    # The next turn continues from the rewritten context.
    second = "".join(["answer", "[yes]"])
    ids = [*episode.tokenizer(second)["input_ids"], episode.tokenizer.eos_token_id]
    longer = [*messages, {"role": "assistant", "content": second}, {"role": "user", "content": "right"}]
    following, extends = episode.builder.next(longer, second, ids)
    assert extends and following[: len(prompt) + len(ids)] == prompt + ids


def test_a_string_is_one_user_message_without_history(episode):
    prompt = episode.builder.first("Which river?")
    assert prompt == episode.render([{"role": "user", "content": "Which river?"}])
    following, extends = episode.next("none")
    assert following == episode.render([{"role": "user", "content": "none"}])
    assert not extends


def test_ids_are_taken_as_they_are(episode):
    assert episode.builder.first([5, 6, 7]) == [5, 6, 7]
    assert episode.builder.next([5, 6, 7, 8, 9, 1], "x", [8, 9]) == ([5, 6, 7, 8, 9, 1], True)
    assert episode.builder.next([5, 6, 7, 8, 2], "x", [8, 9]) == ([5, 6, 7, 8, 2], False)


def test_a_response_without_ids_gets_the_turn_end_from_the_prompt(episode):
    episode.ids = []
    messages = [
        *episode.messages,
        {"role": "assistant", "content": episode.reply},
        {"role": "user", "content": "none"},
    ]
    following, extends = episode.next(messages)
    assert extends
    assert episode.tokenizer.decode(following[len(episode.prompt) :]).startswith("<|im_end|>\n<|im_start|>user\n")


@given(data=st.data())
def test_no_sampled_id_is_ever_altered(chat_tokenizer, data):
    """Decoding and encoding again would change most of these responses."""
    tokenizer = chat_tokenizer("qwen3")
    builder = PromptBuilder(tokenizer)
    text = st.text(st.characters(codec="utf-8"), max_size=30)
    messages = [{"role": "user", "content": data.draw(text)}]
    prompt = builder.first(messages)
    for _ in range(2):
        ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=12))
        reply = tokenizer.decode(ids, skip_special_tokens=True)
        messages = [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": data.draw(text)}]
        following, extends = builder.next(messages, reply, ids)
        assert extends
        assert following[: len(prompt) + len(ids)] == prompt + ids
        prompt = following


def test_what_is_returned_cannot_be_changed_by_the_caller(episode):
    with pytest.raises(AttributeError):
        episode.prompt.append(1)
    with pytest.raises(TypeError):
        episode.prompt[0] = 1
    messages = [
        *episode.messages,
        {"role": "assistant", "content": episode.reply},
        {"role": "user", "content": "none"},
    ]
    following, extends = episode.next(messages)
    assert extends and following == episode.render(messages)


def test_errors(chat_tokenizer):
    with pytest.raises(ValueError, match="'keep' or 'strip'"):
        PromptBuilder(chat_tokenizer("qwen3"), history_thinking="drop")
    builder = PromptBuilder(chat_tokenizer("qwen3"))
    with pytest.raises(RuntimeError, match="first"):
        builder.next("x", "y", [1])
    with pytest.raises(PromptError, match="no messages"):
        builder.first([])


def test_a_refusing_template_names_the_roles(chat_tokenizer):
    builder = PromptBuilder(chat_tokenizer("trims"))
    with pytest.raises(PromptError, match=r"\[user, user\].*roles must alternate"):
        builder.first([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])


def test_a_template_that_drops_a_role_is_refused(chat_tokenizer):
    tokenizer = chat_tokenizer("drops_tools")
    with pytest.raises(PromptError, match="drops messages of role 'system'"):
        PromptBuilder(tokenizer).first([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}])
    builder = PromptBuilder(tokenizer)
    messages = [{"role": "user", "content": "a"}]
    builder.first(messages)
    reply = "".join(["search", "[b]"])
    with pytest.raises(PromptError, match="drops messages of role 'tool'"):
        builder.next(
            [*messages, {"role": "assistant", "content": reply}, {"role": "tool", "content": "c"}], reply, [1, 2]
        )


def test_without_a_template_plain_lines_are_used_and_said(chat_tokenizer):
    tokenizer = chat_tokenizer(None)
    with pytest.warns(UserWarning, match="no chat template"):
        builder = PromptBuilder(tokenizer)
    messages = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Which river?"}]
    prompt = builder.first(messages)
    assert tokenizer.decode(prompt) == "system: Answer.\nuser: Which river?\nassistant: "
    reply = "".join(["search", "[river]"])
    ids = [*tokenizer(reply)["input_ids"], tokenizer.eos_token_id]
    following, extends = builder.next(
        [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": "none"}], reply, ids
    )
    assert extends
    assert tokenizer.decode(following[len(prompt) :]) == "search[river]<|im_end|>\nuser: none\nassistant: "


def test_a_template_may_be_given_as_an_argument(chat_tokenizer):
    template = "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        builder = PromptBuilder(chat_tokenizer(None), chat_template_kwargs={"chat_template": template})
    assert chat_tokenizer(None).decode(builder.first("hi")) == "user=hi;"


NUMBERED = (
    "{% for m in messages %}{{ loop.index if messages | length > 4 }} {{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}{{ messages | length }} assistant: {% endif %}"
)


@pytest.mark.parametrize("name", [*sorted(path.stem for path in TEMPLATES.glob("*.jinja")), NUMBERED, None])
def test_what_follows_a_reply_is_what_the_whole_conversation_says(chat_tokenizer, name, recwarn):
    tokenizer = chat_tokenizer(name)
    builder = PromptBuilder(tokenizer)
    messages = [{"role": "user", "content": "Which river?"}]
    prompt = builder.first(messages)
    for turn in range(12):
        reply = f"search[{turn}]"
        ids = [*tokenizer(reply, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        new = {"role": "user", "content": f"none {turn}"}
        text = glue_text(builder._renderer, messages, [new])
        messages = [*messages, {"role": "assistant", "content": reply}, new]
        following, extends = builder.next(messages, reply, ids)
        if text is None:  # the template cannot say: rendered afresh
            assert following == tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        else:
            assert extends and following == prompt + ids + glue_ids(builder._renderer, text, ids)
        prompt = following


def test_a_growing_conversation_is_not_rendered_again_and_again(chat_tokenizer, monkeypatch):
    tokenizer = chat_tokenizer("qwen2_5")
    builder = PromptBuilder(tokenizer)
    rendered: list[int] = []
    whole = tokenizer.apply_chat_template
    monkeypatch.setattr(
        tokenizer, "apply_chat_template", lambda m, **kwargs: rendered.append(len(m)) or whole(m, **kwargs)
    )
    messages = [{"role": "user", "content": "Which river?"}]
    builder.first(messages)
    turns = 64
    for turn in range(turns):
        reply = f"search[{turn}]"
        messages = [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": "none"}]
        builder.next(messages, reply, tokenizer(reply)["input_ids"])
    assert sum(rendered) < 10 * turns  # all of it at every turn: 64 * 65 and more


@pytest.mark.parametrize("text", ["Finds pages.", "Ends<|im_end|>turns."])
def test_tools_are_searched_for_marks_once_an_episode_and_cut_in_every_prompt(chat_tokenizer, monkeypatch, text):
    options, suspects = [], TurnMarks.suspects

    def counted(marks, value):
        if isinstance(value, dict) and "tools" in value:
            options.append(value)
        return suspects(marks, value)

    tokenizer = chat_tokenizer("qwen2_5")
    tools = [{"type": "function", "function": {"name": "find", "description": text}}]
    builder = PromptBuilder(tokenizer, chat_template_kwargs={"tools": tools})
    monkeypatch.setattr(TurnMarks, "suspects", counted)
    prompts = [list(builder.first([{"role": "user", "content": f"Question {turn}."}])) for turn in range(4)]
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert [prompt.count(end) for prompt in prompts] == [2] * 4  # of the system message and the question
    assert len(options) == 1 or "<|" in text  # where there is a mark, marking it looks again
