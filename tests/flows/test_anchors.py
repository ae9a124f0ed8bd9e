"""What a step records as its state, for estimators that compare steps taken in the same one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Text

from agent_r1_envs import AgentEnv, Outcome, Score, TaskSet
from agent_r1_trainer.environments.factory import EnvFactory
from agent_r1_trainer.flows import AgentEnvLoop, Assignment
from agent_r1_trainer.flows.episode import record_observations, state_anchor
from agent_r1_trainer.generation import SamplingParams
from tests.helpers.training import ScriptedGenerator, make_tokenizer, make_trainer


class Corridor(gymnasium.Env[str, str]):
    """A foreign environment: one walks left or right and is told where one is; anything else has no answer."""

    observation_space, action_space = Text(100), Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.place = 0
        return "place 0", {}

    def step(self, action):
        move = {"left": -1, "right": 1}.get(action.strip(), 0)
        self.place += move
        return f"place {self.place}" if move else "Nothing happens.", 0.0, False, False, {}


class KeyedCorridor(Corridor):
    """The same, with a key of its own."""

    def state_key(self) -> str:
        return str(self.place)


def anchors(env, moves: list[str], kind) -> list[str]:
    """Anchors of the steps of an episode in which these replies are given, and whether each took a turn."""
    tokenizer = make_tokenizer()
    replies = iter(moves)
    loop = AgentEnvLoop(
        EnvFactory(env, recipe="native", max_turns=len(moves)), tokenizer, max_prompt_length=4096, step_anchor=kind
    )
    sampling = SamplingParams(max_new_tokens=4, stop_token_ids=(1,))
    (trajectory,) = loop.run([Assignment(None, 0)], ScriptedGenerator(tokenizer, lambda _: next(replies)), sampling)
    return [step.anchor for step in trajectory.steps]


WALK = ["right", "left", "right", "wait", "right", "left"]


@pytest.mark.parametrize("env", [Corridor, KeyedCorridor])
@pytest.mark.parametrize("kind", ["state", "observation"])
def test_an_anchor_is_the_state_that_the_reply_was_given_in(env, kind):
    """The history around the observation, which never repeats, plays no part."""
    found = anchors(env, WALK, kind)
    places = [0, 1, 0, 1, 1, 2]
    silent = 4  # what is seen at the fifth turn is that nothing happened
    if kind == "state" and env is KeyedCorridor:
        assert found == [str(place) for place in places]
        return
    known = [turn for turn in range(6) if turn != silent]
    assert all((found[i] == found[j]) == (places[i] == places[j]) for i in known for j in known)
    assert found[silent] not in [found[turn] for turn in known]


def test_nothing_is_recorded_for_nobody():
    assert anchors(Corridor, WALK, None) == [""] * 6


def test_a_real_environment_gives_its_state_key():
    found = anchors("AgentR1/ALFWorld-v0", ["left", "right", "wait"], "state")
    assert len(set(found)) == 1  # none of these is a command
    seen = anchors("AgentR1/ALFWorld-v0", ["left", "right", "wait"], "observation")
    assert seen[0] != seen[1] == seen[2] and found[0] not in seen


def test_the_recorder_is_put_in_once_and_an_environment_without_wrappers_needs_none():
    env = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.TransformObservation(Corridor(), lambda _: "x", None), 9)
    for _ in range(2):
        record_observations(env)
    observation, _ = env.reset()
    assert observation == "x" and env.unwrapped.place == 0
    assert type(env.env.env.env) is Corridor
    bare = Corridor()
    record_observations(bare)
    assert state_anchor(env, observation, "observation") == state_anchor(bare, bare.reset()[0], "observation")
    assert state_anchor(bare, np.arange(3), "state") == state_anchor(bare, np.arange(3), "state")


def test_only_an_estimator_that_compares_states_makes_episodes_record_them(tmp_path):
    for name, expected in (("gigpo", True), ("grpo", False)):
        trainer = make_trainer(tmp_path, max_steps=4, advantage_estimator=name, num_generations=4)
        trainer.train()
        steps = [step for trajectory in trainer._experience.trajectories for step in trajectory.steps]
        assert {bool(step.anchor) for step in steps} == {expected}


class Unsaid(AgentEnv[str]):
    """One of this project's kind whose author did not say what its state is."""

    def __init__(self) -> None:
        super().__init__(TaskSet(["a"], dataset="synthetic", split="test", ids=["a"]))

    def _begin(self) -> str:
        return "left"

    def _act(self, action: str) -> Outcome:
        return Outcome("left" if action == "wait" else action)

    def _score(self) -> Score:
        return Score(False, 0.0, {})

    def _instruction(self) -> str:
        return "walk"


def test_where_nobody_said_what_the_state_is_it_is_what_was_seen():
    found = anchors(Unsaid, ["wait", "right", "left", "wait"], "state")
    assert found[0] == found[1] == found[3] != found[2]
