import pytest
from agent_r1_wrappers import AppendHistory, TruncateHistory

from tests.helpers.text_envs import ParrotEnv, RoomsEnv

WORDS = "agent_r1_wrappers.fitting:count_words"


def walk(env, replies):
    messages, _ = env.reset(options={"task": "cellar"})
    for reply in replies:
        messages, *_ = env.step(reply)
    return messages


def test_the_last_turns_stay_with_system_and_first_observation():
    history = AppendHistory(RoomsEnv(), system="Walk.")
    shown = walk(TruncateHistory(history, turns=2), ["go to kitchen", "a", "b", "c"])
    assert [message["content"] for message in shown] == [
        "Walk.", history.first_observation, "b", "Nothing happens.", "c", "Nothing happens."
    ]  # fmt: skip
    assert all(any(message is kept for kept in history.messages) for message in shown)
    assert len(history.history) == 4


@pytest.mark.parametrize(("tokens", "replies"), [(55, 3), (54, 2), (39, 2), (38, 1), (28, 1)])
def test_tokens(tokens, replies):
    """Words and 4 a message: 17 for the first observation, then turns of 16, 11 and 11."""
    shown = walk(
        TruncateHistory(AppendHistory(RoomsEnv()), tokens=tokens, length=WORDS), ["go to kitchen", "one", "two"]
    )
    assert [message["content"] for message in shown[1::2]] == ["go to kitchen", "one", "two"][-replies:]
    assert shown[-1]["content"] == "Nothing happens."


def test_turns_and_tokens_together():
    env = TruncateHistory(AppendHistory(RoomsEnv()), turns=1, tokens=1000)
    assert len(walk(env, ["a", "b", "c"])) == 3


def test_long_texts_are_cut_in_the_middle():
    env = TruncateHistory(AppendHistory(ParrotEnv()), tokens=100, length=len)
    env.reset()
    first, reply, observation = env.step("start" + "." * 190 + "end")[0]
    assert first["content"] == "Say something."
    assert reply["content"].startswith("s") and reply["content"].endswith("d")
    assert observation["content"] == "\n[... 207 characters left out ...]\n"
    assert 95 < sum(len(message["content"]) + 4 for message in (first, reply, observation)) <= 100


def test_only_the_observation_is_cut_where_that_suffices():
    env = TruncateHistory(AppendHistory(ParrotEnv(), system="s" * 50), tokens=250, length=len)
    env.reset()
    messages, *_ = env.step("a" * 100)
    assert [message["content"] for message in messages[:3]] == ["s" * 50, "Say something.", "a" * 100]
    assert messages[3]["content"].startswith("It says") and messages[3]["content"].endswith("A")
    assert 240 < sum(len(message["content"]) + 4 for message in messages) <= 250


def test_a_length_of_messages():
    env = TruncateHistory(AppendHistory(RoomsEnv()), tokens=5, length=len, length_of="messages")
    assert len(walk(env, ["a", "b", "c"])) == 5


@pytest.mark.parametrize("arguments", [{}, {"turns": 0}, {"tokens": 0}, {"turns": 1, "length_of": "x"}])
def test_refuses(arguments):
    with pytest.raises(ValueError):
        TruncateHistory(AppendHistory(RoomsEnv()), **arguments)
