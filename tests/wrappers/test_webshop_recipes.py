import gymnasium
import pytest
from agent_r1_wrappers import reply_for

STEPPO, GIGPO = "AgentR1/WebShop-StepPO-v0", "AgentR1/WebShop-GiGPO-v0"


def prompt(messages):
    assert messages[-1]["role"] == "user"
    return messages[-1]["content"]


def test_the_steppo_prompt_is_rebuilt_from_the_state():
    env = gymnasium.make(STEPPO, split="test")
    messages, info = env.reset(options={"task": 0})
    assert "env_step" in messages[0]["content"] and len(messages) == 2
    assert prompt(messages) == (
        f"Instruction: {info['instruction']}\n\nCurrent page:\nSearch\n\n"
        "Available actions:\n- search[<your query>]\n\n"
        "Call env_step exactly once, with one of the available actions.\n15 turns are left."
    )
    seen = []
    while True:
        command = env.unwrapped.expert_action()
        if command == "click[buy now]":
            break
        seen.append((env.unwrapped.last_observation, command))
        messages, *_ = env.step(reply_for(env, command))
    text = prompt(messages)
    assert "Last turns:\nObservation" in text and text.count("\nAction ") == 2
    for number, (_, command) in enumerate(seen, 1):
        assert (f"Action {number}: {command}\n" in text) == (number > len(seen) - 2)
    assert text.count(info["instruction"]) == 1, "pages repeat the instruction, the prompt does not"
    assert "- click[buy now]\n" in text and len(messages) == 2


def test_past_pages_are_cut():
    env = gymnasium.make(STEPPO, split="test")
    env.reset(options={"task": 0})
    env.step(reply_for(env, f"search[{'lamp ' * 1000}]"))
    messages, *_ = env.step(reply_for(env, "search[a]"))
    cut = next(line for line in prompt(messages).splitlines() if line.startswith("Action 2: "))
    assert cut == "Action 2: search[a]"
    long = next(line for line in prompt(messages).splitlines() if line.startswith("Action 1: "))
    assert len(long) == len("Action 1: ") + 1800


@pytest.mark.parametrize(
    ("env_id", "malformed", "refused"),
    [
        (STEPPO, "no call at all", '<tool_call>{"name": "env_step", "arguments": {"command": "click[x]"}}</tool_call>'),
        (GIGPO, "<action>click[x]</action>", "<think>hm</think><action>click[x]</action>"),
    ],
)
def test_rewards(env_id, malformed, refused):
    """Success earns 10, a malformed reply costs 0.1, a click on nothing is free."""
    env = gymnasium.make(env_id, split="test")
    env.reset(options={"task": 1})
    *_, info = env.step(malformed)
    assert env.step(malformed)[1] == pytest.approx(-0.1) and info["invalid_action"]
    messages, reward, *_, info = env.step(refused)
    assert reward == 0.0 and "nothing called" in info["invalid_action"] and info["action"] == "click[x]"
    terminated = False
    while not terminated:
        *_, reward, terminated, _, info = env.step(reply_for(env, env.unwrapped.expert_action(), "Hm."))
    assert reward == 10.0 and info["score"] == 1.0


def test_a_poor_purchase_earns_nothing():
    env = gymnasium.make(GIGPO, split="test")
    env.reset(options={"task": 1})
    for command in ("search[a]", "click[back to search]", env.unwrapped.expert_action()):
        env.step(reply_for(env, command, "Hm."))
    for command in (env.unwrapped.expert_action(), "click[buy now]"):
        _, reward, terminated, _, info = env.step(reply_for(env, command, "Hm."))
    assert terminated and 0 < info["score"] < 1 and reward == 0.0


def test_the_gigpo_prompt_quotes_its_fields():
    env = gymnasium.make(GIGPO, split="test")
    messages, info = env.reset(options={"task": 2})
    text = prompt(messages)
    assert len(messages) == 1
    assert f"Your task is to: {info['instruction']}." in text
    assert "This is step 1, and the current observation is: 'Search'." in text
    assert "'search[<your query>]'," in text and "You have taken" not in text
    messages, *_ = env.step("<think>x</think><action>search[a]</action>")
    text = prompt(messages)
    assert "You have taken 1 step(s). The last 1 observation(s) and action(s) were:" in text
    assert "[Observation 1: 'Search', Action 1: 'search[a]']" in text
    assert "'Back to Search' [SEP] 'Page 1 (Total results: " in text


def test_fifteen_turns():
    for env_id in (STEPPO, GIGPO):
        env = gymnasium.make(env_id)
        env.reset(seed=0)
        ends = [env.step("noise")[2:4] for _ in range(15)]
        assert ends[-1] == (False, True) and (False, True) not in ends[:-1]
