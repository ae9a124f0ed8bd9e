import agent_r1_wrappers as w
import gymnasium
import pytest

from tests.helpers.text_envs import ROOMS, RoomsEnv

TEXT = [w.ParseTags, w.ParseToolCalls, w.ParseReAct, w.ExplainInvalid, w.WrapObservation, w.AppendHistory]
CHAT = [
    lambda env: w.TruncateHistory(env, turns=2),
    w.SummarizeHistory,
    lambda env: w.RewriteContext(env, "{{ observation }}"),
]


@pytest.mark.parametrize("wrapper", TEXT)
def test_what_works_on_text_refuses_chat(wrapper):
    with pytest.raises(w.WrapperOrderError) as caught:
        wrapper(w.AppendHistory(RoomsEnv()))
    assert str(caught.value) == (
        f"{wrapper.__name__} works on text, but AppendHistory below it emits chat messages. "
        "Put it below AppendHistory. "
        "The order, inside out: env, TimeLimit, action format, rewards, AppendHistory, context operations, recording."
    )


@pytest.mark.parametrize("wrapper", CHAT)
def test_what_works_on_chat_refuses_text(wrapper):
    with pytest.raises(w.WrapperOrderError, match="on chat messages, but .* Put AppendHistory below it. The order"):
        wrapper(RoomsEnv())


@pytest.mark.parametrize("wrapper", TEXT)
def test_what_works_on_text_refuses_numbers(wrapper):
    with pytest.raises(w.WrapperOrderError, match="text observations, but those of TimeLimit are in Box"):
        wrapper(gymnasium.make("CartPole-v1"))
    assert issubclass(w.WrapperOrderError, TypeError)


def test_numbers_are_neither_text_nor_chat():
    for wrapper in (w.AugmentContext, w.recipes.default):
        with pytest.raises(w.WrapperOrderError):
            wrapper(gymnasium.make("CartPole-v1"))


def test_every_sensible_order_composes(tmp_path):
    env = gymnasium.make(ROOMS)
    env = w.SuccessBonus(w.InvalidActionPenalty(w.ExplainInvalid(w.ParseTags(env))), 2.0)
    env = w.RecordTrajectory(env, tmp_path / "text")
    env = w.AppendHistory(w.AugmentContext(env), system="Walk.")
    env = w.AugmentContext(w.TruncateHistory(w.SummarizeHistory(env, after_turns=2, keep_turns=1), tokens=500))
    env = w.RecordTrajectory(w.SuccessReward(env, 3.0), tmp_path / "chat")
    env.reset(seed=0)
    for reply in ("a", "b", "c", w.reply_for(env, env.unwrapped.expert_action())):
        messages, reward, terminated, *_ = env.step(reply)
        assert messages in env.observation_space
    assert terminated and reward == 3.0
    assert [len(list(w.read_trajectories(tmp_path / name))) for name in ("text", "chat")] == [1, 1]
