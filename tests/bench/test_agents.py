from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agent_r1_envs  # noqa: F401  (registers the ids)
from agent_r1_envs.spaces import FreeText
from agent_r1_trainer.bench.agents import AgentError, ExpertAgent, RandomAgent, make_agent
from agent_r1_trainer.bench.settings import AgentSpec

KINDS: dict[str, Any] = {
    "text": {"type": "string"},
    "choice": {"type": "string", "enum": ["a", "b"]},
    "count": {"type": "integer", "minimum": 2, "maximum": 4},
    "share": {"type": "number"},
    "flag": {"type": "boolean"},
    "many": {"type": "array", "items": {"type": "integer"}},
    "inner": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
    "optional": {"type": "string"},
}


class AnyEnv(gymnasium.Env[str, str]):
    observation_space = action_space = FreeText(100)


def actions(seed: int, info: dict[str, Any], observations: list[str]) -> list[str]:
    act = RandomAgent().begin(AnyEnv(), info, seed)
    return [act(observation, info) for observation in observations]


def test_random_actions_are_admissible_and_depend_on_the_seed_alone() -> None:
    info = {"admissible_actions": ["go north", "look", "take lamp", "open door"]}
    first = actions(3, info, ["x"] * 20)
    assert first == actions(3, info, ["x"] * 20) != actions(4, info, ["x"] * 20)
    assert set(first) == set(info["admissible_actions"])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31 - 1), st.text())
def test_random_calls_fit_the_schema(seed: int, observation: str) -> None:
    import json

    required = [name for name in KINDS if name != "optional"]
    schema = {"type": "object", "properties": KINDS, "required": required}
    info = {"tools": [{"type": "function", "function": {"name": "do", "parameters": schema}}]}
    call = json.loads(actions(seed, info, [observation])[0])
    assert call["name"] == "do" and list(call["arguments"]) == required
    arguments = call["arguments"]
    assert arguments["choice"] in ("a", "b") and 2 <= arguments["count"] <= 4 and isinstance(arguments["flag"], bool)
    assert isinstance(arguments["text"], str) and arguments["text"]
    assert all(isinstance(i, int) for i in arguments["many"]) and arguments["inner"]["x"]


def test_random_agent_says_what_it_needs() -> None:
    with pytest.raises(AgentError, match="admissible_actions or tools"):
        actions(0, {}, [""])


def test_expert_says_that_there_is_none() -> None:
    with pytest.raises(AgentError, match="AnyEnv has no expert_action"):
        ExpertAgent().begin(AnyEnv(), {}, 0)


def test_unknown_kind() -> None:
    with pytest.raises(ValueError, match="no agent of the kind 'gpt'"):
        make_agent(AgentSpec("gpt"), {})


@pytest.mark.parametrize("agent", [ExpertAgent(), RandomAgent()])
def test_agents_speak_the_format_of_a_wrapped_env(agent: Any) -> None:
    from agent_r1_wrappers import recipes

    env = recipes.default(gymnasium.make("AgentR1/HotpotQA-v0"))
    observation, info = env.reset(seed=0, options={"task": 0})
    act = agent.begin(env, info, 0)
    for _ in range(5):
        observation, _, terminated, truncated, info = env.step(act(observation, info))
        assert "invalid_action" not in info
        if terminated or truncated:
            break
    assert terminated or isinstance(agent, RandomAgent)
