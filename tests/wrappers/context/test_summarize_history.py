import itertools

import pytest
from agent_r1_wrappers import AppendHistory, SummarizeHistory
from agent_r1_wrappers.context.summarize_history import extractive

from tests.helpers.text_envs import RoomsEnv


def count(messages):
    return f"{len(messages)} messages, last: {messages[-2]['content']}"


def grew(old, new):
    return len(new) > len(old) and all(a is b for a, b in zip(new, old, strict=False))


def walk(env, turns):
    lists = [env.reset(options={"task": "cellar"})[0]]
    lists.extend(env.step(f"reply {number}")[0] for number in range(turns))
    return lists


def test_old_turns_become_a_summary_after_the_first_observation():
    history = AppendHistory(RoomsEnv(), system="Walk.")
    env = SummarizeHistory(history, summarize=count, after_turns=4, keep_turns=2, heading="Before:")
    lists = walk(env, 9)
    shown = [sum(message["role"] == "assistant" for message in messages) for messages in lists]
    assert shown == [0, 1, 2, 3, 4, 3, 4, 3, 4, 3]
    assert lists[5][1]["content"] == f"{history.first_observation}\n\nBefore:\n6 messages, last: reply 1"
    assert lists[9][1]["content"].endswith("14 messages, last: reply 5")
    assert lists[5][0] is lists[0][0] and lists[5][2]["content"] == "reply 2"
    assert [message["role"] for message in lists[9]] == ["system", "user", *["assistant", "user"] * 3]
    assert len(history.history) == 9


def test_prompts_grow_by_appending_between_summaries_and_the_callable_runs_once_for_each():
    calls = []

    def summarize(messages):
        calls.append(len(messages))
        return "s"

    lists = walk(SummarizeHistory(AppendHistory(RoomsEnv()), summarize=summarize, after_turns=4, keep_turns=1), 8)
    appended = [grew(old, new) for old, new in itertools.pairwise(lists)]
    assert appended == [True, True, True, True, False, True, True, False]
    assert calls == [1 + 2 * 3, 1 + 2 * 6]


def test_state():
    env = SummarizeHistory(AppendHistory(RoomsEnv()), summarize=count, after_turns=1, keep_turns=0)
    walk(env, 3)
    state = env.get_wrapper_state()
    env.reset(seed=0)
    assert env.get_wrapper_state() is None
    env.set_wrapper_state(state)
    assert env.get_wrapper_state() is state


def test_a_summary_of_the_default_kind():
    messages = [
        {"role": "system", "content": "Answer mayor questions."},
        {"role": "user", "content": "Who is the mayor of Cedar Shore?"},
        {"role": "assistant", "content": "<think>hm</think>search[Cedar\nShore]"},
        {"role": "user", "content": "A river flows. Cedar Shore has a mayor called Karen. Bye."},
        {"role": "assistant", "content": "x" * 500},
    ]
    lines = extractive(messages).split("\n")
    assert lines[0] == "- search[Cedar Shore] -> Cedar Shore has a mayor called Karen."
    assert lines[1].startswith("- xxx") and len(lines[1]) < 150
    assert extractive(messages[:2]) == ""


@pytest.mark.parametrize("limits", [(4, 4), (1, -1), (0, 0)])
def test_refuses(limits):
    with pytest.raises(ValueError, match="keep_turns"):
        SummarizeHistory(AppendHistory(RoomsEnv()), after_turns=limits[0], keep_turns=limits[1])


def test_refuses_what_cannot_be_called():
    with pytest.raises(TypeError, match="summarize must be a callable"):
        SummarizeHistory(AppendHistory(RoomsEnv()), summarize=7)
