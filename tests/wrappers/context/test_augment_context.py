import gymnasium
import pytest
from agent_r1_wrappers import AppendHistory, AugmentContext

from tests.helpers.text_envs import ROOMS, ParrotEnv, RoomsEnv

ACTIONS = "Admissible actions:\ngo to kitchen\ngo to cellar\ngo to garden"


def appended(old, new):
    return len(new) > len(old) and all(a is b for a, b in zip(new, old, strict=False))


def test_below_the_history_blocks_stay_and_prompts_grow_by_appending():
    env = AppendHistory(AugmentContext(RoomsEnv()))
    first, _ = env.reset(options={"task": "cellar"})
    assert first[-1]["content"].endswith("go to the cellar.\n" + ACTIONS)
    second, *_ = env.step("fly")
    assert second[-1]["content"] == "Nothing happens.\n" + ACTIONS
    assert appended(first, second)


def test_above_the_history_only_the_newest_message_has_a_block():
    history = AppendHistory(RoomsEnv())
    env = AugmentContext(history)
    first, _ = env.reset(options={"task": "cellar"})
    second, *_ = env.step("fly")
    assert second[-1]["content"] == "Nothing happens.\n" + ACTIONS
    assert [message["content"] for message in second[:-1]] == [history.first_observation, "fly"]
    assert not appended(first, second)
    assert history.messages[-1]["content"] == "Nothing happens.", "the history keeps the bare message"


def test_everything():
    env = AugmentContext(
        gymnasium.make(ROOMS),
        remaining_turns=True,
        notes="Be brief.",
        retrieve=lambda observation, info: [f"about {observation[:5]}", info["task_id"]],
    )
    observation, _ = env.reset(options={"task": "cellar"})
    assert observation.endswith(f"about You a\ncellar\nBe brief.\n{ACTIONS}\nTurns left: 4")
    state = env.get_wrapper_state()
    assert env.step("go to kitchen")[0].endswith("Turns left: 3")
    env.set_wrapper_state(state)
    assert env.step("go to hall")[0].endswith("Turns left: 3")


def test_without_anything_to_add_the_observation_stays():
    env = AugmentContext(ParrotEnv())
    assert env.reset()[0] == "Say something."
    env = AugmentContext(AppendHistory(ParrotEnv()), max_turns=3, remaining_turns=True, admissible_actions=False)
    assert env.reset()[0][-1]["content"] == "Say something.\nTurns left: 3"


def test_a_block_is_cut_to_its_length_and_the_space_has_room_for_it():
    env = AugmentContext(RoomsEnv(max_length=60), notes="x" * 500, max_length=100)
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space and observation.endswith("x…")


def test_refuses():
    with pytest.raises(ValueError, match="give max_turns"):
        AugmentContext(RoomsEnv(), remaining_turns=True)
    with pytest.raises(ValueError, match="max_length"):
        AugmentContext(RoomsEnv(), max_length=0)
    with pytest.raises(TypeError, match="retrieve must be a callable"):
        AugmentContext(RoomsEnv(), retrieve=3)


def test_the_tightest_of_several_limits_counts():
    for inner, outer in ((3, 9), (9, 3)):
        env = gymnasium.wrappers.TimeLimit(gymnasium.make(ROOMS, max_episode_steps=inner), outer)
        assert AugmentContext(env, remaining_turns=True).reset()[0].endswith("Turns left: 3")
