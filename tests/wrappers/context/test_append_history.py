import pytest
from agent_r1_wrappers import AppendHistory, ParseTags, ParseToolCalls, Transition

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import ParrotEnv, RoomsEnv


def reply_object(text):
    return "".join(list(text))  # equal strings must not be one object by accident


def test_the_same_objects_turn_after_turn():
    env = AppendHistory(RoomsEnv(), system="Walk.")
    first, info = env.reset(options={"task": "cellar"})
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[0]["content"] == "Walk." and first[1]["content"] == env.first_observation
    assert env.reset_info == info
    replies = [reply_object("go to kitchen"), reply_object("fly"), reply_object("go to cellar")]
    before = first
    for reply in replies:
        after, *_ = env.step(reply)
        assert after is not before and len(after) == len(before) + 2
        assert all(new is old for new, old in zip(after, before, strict=False))
        assert after[-2]["role"] == "assistant" and after[-2]["content"] is reply
        assert after[-1] == {"role": "user", "content": env.history[-1].observation}
        before = after
    assert len(first) == 2, "a list that was handed out does not grow"
    assert [message["content"] for message in before[1::2]][1:] == ["You are in the kitchen.", "Nothing happens.",
                                                                    "You are in the cellar."]  # fmt: skip
    assert before in env.observation_space


def test_history_holds_what_happened():
    env = AppendHistory(ParseTags(RoomsEnv()))
    env.reset(options={"task": "cellar"})
    *_, info = env.step("<action>go to kitchen</action>")
    env.step("nonsense")
    assert env.history[0] == Transition(
        "go to kitchen", "<action>go to kitchen</action>", "You are in the kitchen.", info
    )
    assert env.history[1].action == env.history[1].reply == "nonsense"
    assert "invalid_action" in env.history[1].info
    env.reset(seed=0)
    assert env.history == []


def test_the_raw_reply_is_the_message_with_parsed_calls_and_tool_role():
    env = AppendHistory(ParseToolCalls(DirectoryEnv()), observation_role="tool")
    env.reset(seed=0)
    reply = reply_object('<think>x</think><tool_call>{"name": "city", "arguments": {"person": "Zoë"}}</tool_call>')
    messages, *_ = env.step(reply)
    assert messages[-2] == {"role": "assistant", "content": reply} and messages[-2]["content"] is reply
    assert messages[-1] == {"role": "tool", "content": "Zoë lives in Århus."}


def test_the_format_is_told_in_the_system_message():
    plain = ParseTags(RoomsEnv())
    for system, expected in (("Walk.", "Walk.\n\n" + plain.instruction()), (None, plain.instruction())):
        messages, _ = AppendHistory(plain, system=system).reset(seed=0)
        assert messages[0] == {"role": "system", "content": expected}
    messages, _ = AppendHistory(RoomsEnv(), system="agent_r1_wrappers.hotpotqa_recipes:REACT_SYSTEM").reset(seed=0)
    assert messages[0]["content"].startswith("Answer the question")
    messages, _ = AppendHistory(RoomsEnv()).reset(seed=0)
    assert [message["role"] for message in messages] == ["user"]


def test_an_env_of_others():
    env = AppendHistory(ParrotEnv())
    env.reset()
    messages, *_ = env.step("hello")
    assert [message["content"] for message in messages] == ["Say something.", "hello", "It says: HELLO"]
    assert env.messages == messages and env.messages is not env.messages


def test_a_conversation_too_long_for_the_space_loses_its_oldest_turns():
    env = AppendHistory(ParrotEnv(), system="s", max_length=1024)
    env.reset()
    env.step("first")
    messages, *_ = env.step("é" * 180 + "\x01" * 120)  # JSON writes six characters for a control character
    assert messages in env.observation_space
    assert [message["content"] for message in messages[:2]] == ["s", "Say something."]
    assert "first" not in [message["content"] for message in messages]
    messages, *_ = env.step("x" * 5000)
    assert messages in env.observation_space
    assert "characters left out" in messages[-2]["content"]
    assert len(env.history) == 3 and env.history[2].reply == "x" * 5000


def test_replies_that_are_no_text_or_no_unicode():
    env = AppendHistory(RoomsEnv())
    env.reset(seed=0)
    for reply in (7, "a\ud800", "", None):
        messages, *_ = env.step(reply)
        assert messages in env.observation_space
    assert [message["content"] for message in messages[1::2]] == ["7", "a\N{REPLACEMENT CHARACTER}", "", "None"]


def test_state():
    env = AppendHistory(ParrotEnv())
    env.reset()
    messages, *_ = env.step("a")
    state = env.get_wrapper_state()
    env.step("b")
    env.set_wrapper_state(state)
    assert [turn.reply for turn in env.history] == ["a"]
    assert all(new is old for new, old in zip(env.messages, messages, strict=True))
    env.step("c")
    assert len(state.history) == 1


@pytest.mark.parametrize("arguments", [{"observation_role": "env"}, {"max_length": 10}])
def test_refuses(arguments):
    with pytest.raises(ValueError):
        AppendHistory(RoomsEnv(), **arguments)
