import gymnasium
import pytest
from agent_r1_wrappers import AppendHistory, ParseTags, RewriteContext, TruncateHistory, WrapperOrderError

from tests.helpers.text_envs import ROOMS, ParrotEnv, RoomsEnv

TEMPLATE = """
{{ instruction }}
{% for action in actions %}
{{ loop.index }}. {{ action }}
{% endfor %}
Now: {{ observation }} ({{ turn }} done, {{ remaining_turns }} left)
{% if info.invalid_action %}
Wrong: {{ info.invalid_action }}
{% endif %}
Split {{ info.split }}: {{ info.admissible_actions | join(", ") }}
"""


def last_words(history):
    return {"words": [turn.reply for turn in history.history]}


def test_a_prompt_from_the_state():
    env = gymnasium.make(ROOMS)
    env = RewriteContext(AppendHistory(ParseTags(env), system="Walk."), TEMPLATE)
    messages, info = env.reset(options={"task": "cellar"})
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"].startswith("Walk.\n\nThink inside")
    env.step("<action>go to garden</action>")
    messages, *_ = env.step("jump")
    assert messages[1]["content"] == (
        "go to the cellar.\n1. go to garden\n2. jump\nNow: Nothing happens. (2 done, 2 left)\n"
        "Wrong: there is no <action>...</action> in the reply\nSplit test: go to hall, go to kitchen, go to cellar"
    )
    assert messages in env.observation_space


def test_variables_of_ones_own_and_what_an_env_of_others_lacks():
    env = RewriteContext(
        AppendHistory(ParrotEnv()), "{{ instruction }}|{{ words | join }}|{{ remaining_turns }}", variables=last_words
    )
    assert env.reset()[0] == [{"role": "user", "content": "Say something.||None"}]
    assert env.step("a")[0][0]["content"] == "Say something.|a|None"


def test_the_oldest_items_go_until_the_prompt_fits():
    env = RewriteContext(
        AppendHistory(ParrotEnv()), "{{ words | join(' ') }}", variables=last_words, fit="words", tokens=4 + 2,
        length="agent_r1_wrappers.fitting:count_words",
    )  # fmt: skip
    env.reset()
    env.step("a")
    assert env.step("b")[0][0]["content"] == "a b"
    assert env.step("c")[0][0]["content"] == "b c"
    env.reset()
    assert env.step("far too many words")[0][0]["content"] == ""


def test_text_is_data_and_never_template():
    env = RewriteContext(AppendHistory(ParrotEnv()), "{{ actions[-1] }}<b>&")
    env.reset()
    assert env.step("{{ 7 * 7 }}\ud800")[0][0]["content"] == "{{ 7 * 7 }}\N{REPLACEMENT CHARACTER}<b>&"


def test_the_template_cannot_leave_its_sandbox():
    env = RewriteContext(AppendHistory(ParrotEnv()), "{{ turns.__class__.__mro__ }}")
    with pytest.raises(Exception, match="unsafe"):
        env.reset()


def test_refuses():
    history = AppendHistory(RoomsEnv())
    with pytest.raises(ValueError, match="unknown variables querys; there are instruction, observation"):
        RewriteContext(history, "{{ querys }}")
    with pytest.raises(ValueError, match="template, line 2: "):
        RewriteContext(history, "a\n{% if %}")
    with pytest.raises(ValueError, match="fit and tokens"):
        RewriteContext(history, "a", tokens=3)
    with pytest.raises(ValueError, match="'actionz' is no list"):
        RewriteContext(history, "a", fit="actionz", tokens=3).reset()
    with pytest.raises(
        WrapperOrderError, match="TruncateHistory below it would have no effect. Put TruncateHistory above"
    ):
        RewriteContext(TruncateHistory(history, turns=1), "a")
