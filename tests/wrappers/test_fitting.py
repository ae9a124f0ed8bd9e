import math

from agent_r1_wrappers.fitting import cut_middle, fit, fit_space, join_turns, json_bound, split_turns
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.spaces import Messages
from agent_r1_envs.spaces.messages import encode_messages

ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
MESSAGES = st.lists(st.fixed_dictionaries({"role": ROLES, "content": st.text(max_size=30)}), max_size=12)


def characters(messages):
    return sum(len(message["content"]) for message in messages)


@given(MESSAGES)
def test_splitting_is_undone(messages):
    head, turns = split_turns(messages)
    assert join_turns(head, turns) == messages
    assert all(turn[0]["role"] == "assistant" for turn in turns)
    assert all(message["role"] != "assistant" for message in head)


def test_cutting_keeps_both_ends():
    assert cut_middle("abcdefghij", 5) == "abc\n[... 5 characters left out ...]\nij"
    assert cut_middle("abc", 3) == "abc"
    assert cut_middle("abc", 0) == "\n[... 3 characters left out ...]\n"
    assert cut_middle("abc", 1) == "a\n[... 2 characters left out ...]\n"


@given(MESSAGES, st.integers(0, 200))
def test_fitting(messages, budget):
    before = [dict(message) for message in messages]
    shown = fit(list(messages), budget, characters)
    assert messages == before, "messages are never changed"
    head, turns = split_turns(messages)
    kept_head, kept = split_turns(shown)
    assert len(kept_head) == len(head) and len(kept) >= min(len(turns), 1)
    if characters(messages) <= budget:
        assert shown == messages and all(new is old for new, old in zip(shown, messages, strict=True))
    if len(kept) < len(turns):  # nothing was left out that fits
        assert characters(join_turns(head, turns[len(turns) - len(kept) - 1 :])) > budget
    if len(kept) > 1:
        assert characters(shown) <= budget
        assert all(new is old for new, old in zip(kept_head, head, strict=True)), (
            "texts are cut only when no turn is left to leave out"
        )


@given(MESSAGES, st.integers(0, 50))
def test_system_messages_are_cut_only_on_demand(messages, budget):
    shown = fit(list(messages), budget, characters)
    head, _ = split_turns(messages)
    kept_head, _ = split_turns(shown)
    assert [m for m in kept_head if m["role"] == "system"] == [m for m in head if m["role"] == "system"]


@given(st.lists(st.text(max_size=2000), min_size=1, max_size=6))
def test_a_conversation_fits_its_space(texts):
    roles = ["system", "user", "assistant", "tool", "assistant", "user"]
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    space = Messages(1024)
    assert fit_space(messages, space) in space


def test_a_conversation_that_fits_is_returned_as_it_is():
    messages = [{"role": "user", "content": "x" * 100}]
    assert fit_space(messages, Messages(10_000)) is messages
    assert fit_space(messages, Messages(200)) == messages


def test_a_bound_is_above_what_json_takes():
    for text in ("", "plain", '"\\', "\x00\x1f", "é\U0001f600"):
        message = {"role": "assistant", "content": text}
        assert len(encode_messages([message])) <= json_bound(message)
    assert json_bound({"role": "tool", "content": "", "name": "x" * 1000}) == math.inf
