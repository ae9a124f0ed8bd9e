import warnings

import gymnasium
import pytest
from agent_r1_wrappers import (
    AppendHistory,
    AugmentContext,
    ExplainInvalid,
    ParseTags,
    ParseToolCalls,
    recipes,
    reply_for,
)
from agent_r1_wrappers.stack import layers
from gymnasium.utils.env_checker import check_env

from agent_r1_envs.spaces import Messages
from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import ParrotEnv, RoomsEnv

IDS = [recipe.id for recipe in recipes.RECIPES]
# What an expert's last action earns, where it is not the 1 of a right answer.
LAST_REWARDS = {
    "AgentR1/WebShop-StepPO-v0": 10.0,
    "AgentR1/WebShop-GiGPO-v0": 10.0,
    "AgentR1/PaperSearch-StepPO-v0": 0.0,
    "AgentR1/ALFWorld-GiGPO-v0": 10.0,
}


def test_default():
    tools = recipes.default(DirectoryEnv())
    assert isinstance(tools, AppendHistory) and isinstance(tools.env, ParseToolCalls)
    plain = recipes.default(RoomsEnv())
    stack = [AppendHistory, AugmentContext, ExplainInvalid, ParseTags]
    assert [type(layer) for layer in (plain, plain.env, plain.env.env, plain.env.env.env)] == stack
    other = recipes.default(ParrotEnv())
    assert isinstance(other, AppendHistory) and isinstance(other.env, ParrotEnv)
    assert recipes.default(tools) is tools, "chat stays as it is"


@pytest.mark.parametrize("env_id", ["AgentR1/ALFWorld-v0", "AgentR1/WebShop-v0"])
def test_default_tells_what_can_be_done_and_what_went_wrong(env_id):
    env = recipes.default(gymnasium.make(env_id))
    messages, info = env.reset(options={"task": 0})
    said = messages[-1]["content"]
    assert all(action in said for action in info["admissible_actions"])
    messages, *_, info = env.step("<action>fly</action>")
    assert info["invalid_action"] in messages[-1]["content"]


def test_native():
    env = recipes.native(RoomsEnv())
    messages, _ = env.reset(options={"task": "cellar"})
    assert [message["role"] for message in messages] == ["user"]
    *_, terminated, _, info = env.step("go to cellar")
    assert terminated and info["success"]


def test_wrap():
    specs = [ParseTags.wrapper_spec(action="do"), AppendHistory.wrapper_spec(system="Walk.")]
    env = recipes.wrap(RoomsEnv(), specs)
    assert isinstance(env, AppendHistory) and env.env.parse("<do>x</do>") == "x"
    with pytest.raises(TypeError, match="The order"):
        recipes.wrap(RoomsEnv(), reversed(specs))


@pytest.mark.parametrize("env_id", IDS)
def test_a_recipe_is_an_id_that_an_expert_can_play(env_id):
    env = gymnasium.make(env_id, split="test")
    assert isinstance(env.observation_space, Messages)
    for task in range(10):
        messages, info = env.reset(options={"task": task})
        assert messages in env.observation_space and info["task_id"]
        terminated = truncated = False
        while not (terminated or truncated):
            messages, reward, terminated, truncated, info = env.step(
                reply_for(env, env.unwrapped.expert_action(), "Hm.")
            )
            assert messages in env.observation_space and "invalid_action" not in info
        assert (reward, info["success"]) == (LAST_REWARDS.get(env_id, 1.0), True)


@pytest.mark.parametrize("env_id", IDS)
def test_check_env_is_silent(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version")
        check_env(gymnasium.make(env_id, disable_env_checker=True))


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    recipes.register_recipes()
    assert dict(gymnasium.registry) == before


def test_the_steppo_prompt_is_rebuilt_from_the_state():
    env = gymnasium.make("AgentR1/HotpotQA-StepPO-v0", split="test")
    messages, info = env.reset(options={"task": 0})
    assert [message["role"] for message in messages] == ["system", "user"]
    prompt = messages[1]["content"]
    assert prompt.startswith(f"Question: {info['instruction']}\n\nPassages:\n- ") and prompt.endswith(
        "5 turns are left."
    )
    assert prompt.count("\n- ") == 5, "the question was searched before the first turn"
    for _ in range(3):
        env.step("no call")
    calls = "\n".join(
        f'<tool_call>{{"name": "search", "arguments": {{"query": "q{n}"}}}}</tool_call>' for n in range(4)
    )
    messages, *_ = env.step(calls)
    prompt = messages[1]["content"]
    assert len(messages) == 2
    assert "Searched so far:\n- q0\n- q1\n- q2\n- q3\n" in prompt
    assert prompt.count("there is no <tool_call>...</tool_call> in the reply") == 3
    assert prompt.endswith("This is the last turn: answer now.")
    rewrite = next(layer for layer in layers(env) if isinstance(layer, recipes.RewriteContext))
    passages = rewrite._all_variables({})["passages"]
    assert len(set(passages)) == len(passages)


def test_search_r1_speaks_its_tags():
    env = gymnasium.make("AgentR1/HotpotQA-SearchR1-v0", split="test")
    env.reset(options={"task": 0})
    messages, *_, info = env.step("<think>who?</think> <search>Cedar Shore</search>")
    assert info["action"] == "search[Cedar Shore]"
    shown = messages[-1]["content"]
    assert shown.startswith("<information>") and shown.endswith("</information>")


def test_search_r1_runs_the_first_call_of_a_reply_that_goes_on():
    env = gymnasium.make("AgentR1/HotpotQA-SearchR1-v0", split="test")
    _, info = env.reset(options={"task": 0})
    assert info["stop_strings"] == ["</search>", "</answer>"]
    made_up = "<information>Doc 1</information> <answer>x</answer>"
    *_, terminated, _, info = env.step(f"<think>who?</think> <search>Cedar Shore</search> {made_up}")
    assert info["action"] == "search[Cedar Shore]" and not terminated and "invalid_action" not in info


def test_the_household_prompts_show_the_task_the_past_and_what_is_possible():
    for env_id, turns in (("AgentR1/ALFWorld-StepPO-v0", 20), ("AgentR1/ALFWorld-GiGPO-v0", 50)):
        env = gymnasium.make(env_id, split="test")
        assert env.spec.max_episode_steps == turns
        messages, info = env.reset(options={"task": 2})
        for _ in range(4):
            prompt = messages[-1]["content"]
            assert info["instruction"] in prompt
            assert all(command in prompt for command in info["admissible_actions"])
            command = env.unwrapped.expert_action()
            messages, *_, info = env.step(reply_for(env, command, "Hm."))
            assert command in messages[-1]["content"]
            assert [message["role"] for message in messages if message["role"] != "system"] == ["user"]
        if turns == 50:
            assert "[Observation 4: '" in prompt or "[Observation 3: '" in messages[-1]["content"]
            assert "[Observation 2: '" not in messages[-1]["content"], "only the last two turns are shown"


def test_the_household_rewards():
    env = gymnasium.make("AgentR1/ALFWorld-GiGPO-v0", split="test")
    env.reset(options={"task": 0})
    assert env.step("<action>look</action>")[1] == pytest.approx(-0.1), "no thinking"
    assert env.step("<think>x</think><action>fly</action>")[1] == 0.0, "not admissible, but well-formed"
    terminated = False
    while not terminated:
        _, reward, terminated, *_ = env.step(reply_for(env, env.unwrapped.expert_action(), "x"))
    assert reward == 10.0


def test_a_household_call_that_cannot_be_read_is_explained():
    env = gymnasium.make("AgentR1/ALFWorld-StepPO-v0", split="test")
    env.reset(options={"task": 0})
    messages, *_, info = env.step("I look around.")
    assert "Nothing happens.\nInvalid action: there is no <tool_call>" in messages[-1]["content"]
    assert info["turn"] == 1
