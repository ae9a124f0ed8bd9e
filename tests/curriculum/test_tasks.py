"""Environments from the `env` argument, the cursor over their tasks, and seeds."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.spaces import Messages
from agent_r1_trainer.curriculum.choice import choose_tasks
from agent_r1_trainer.curriculum.epochs import TaskCursor
from agent_r1_trainer.curriculum.sampler import group_assignments, rollouts_per_epoch
from agent_r1_trainer.environments.factory import EnvFactory, panel_of
from agent_r1_trainer.flows import AgentEnvLoop
from agent_r1_trainer.seeds import derive_seed
from tests.helpers.text_envs import PARROT
from tests.helpers.training import CueEnv, make_tokenizer

HOTPOTQA = "AgentR1/HotpotQA-v0"


@pytest.mark.parametrize("source", [HOTPOTQA, gymnasium.spec(PARROT), CueEnv], ids=["id", "spec", "function"])
def test_environments_are_built_from_ids_specs_and_functions(source):
    env = EnvFactory(source)()
    assert isinstance(env, gymnasium.Env)
    assert isinstance(env.observation_space, Messages)
    env.close()


@pytest.mark.parametrize(("recipe", "wraps"), [("default", True), ("tools", True), ("native", True), ("none", False)])
def test_the_recipe_is_applied_to_plain_text(recipe, wraps):
    env = EnvFactory(HOTPOTQA, {"split": "validation"}, recipe=recipe)()
    assert isinstance(env.observation_space, Messages) == wraps
    assert len(panel_of(env)) == len(env.unwrapped.tasks)
    assert env.unwrapped.tasks.split == "validation"


@pytest.mark.parametrize(
    ("ids", "types", "expected"),
    [
        ([3, 4, 5], ["a", None, 7], (("3", "4", "5"), ("a", "", "7"))),
        (np.array([3, 4, 5]), None, (("3", "4", "5"), None)),
        (["x", "\ud800", None], ["a", "b"], (("x", "\ufffd", ""), None)),
        (lambda: ["x"], lambda: ["a"], (("0", "1", "2"), None)),
        (["x"], 3, (("0", "1", "2"), None)),
    ],
    ids=["numbers", "array", "surrogates", "methods", "counts"],
)
def test_panels_of_other_makers_are_read_as_far_as_they_can_be(ids, types, expected):
    env = CueEnv(3)
    env.tasks = Others(3)
    env.tasks.ids, env.tasks.task_types = ids, types
    panel = panel_of(env)
    assert (panel.ids, panel.types) == expected and len(panel) == 3
    assert len(panel.digest) == 64 and len(choose_tasks(panel.ids, 2, panel.types)) == 2


class Others:
    """Tasks that can be counted, and no more is sure of them."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count


def test_turns_can_be_limited():
    assert EnvFactory(HOTPOTQA, max_turns=2)().spec.max_episode_steps == 2
    env = EnvFactory(CueEnv, {"tasks": 3}, max_turns=1)()
    assert len(panel_of(env)) == 3
    observation, _ = env.reset(seed=0)
    assert env.step(observation[0]["content"])[3]


def test_what_cannot_be_built_is_refused():
    with pytest.raises(TypeError, match="live environment"):
        EnvFactory(CueEnv())
    with pytest.raises(TypeError, match="function"):
        EnvFactory(3)
    with pytest.raises(TypeError, match="must return a gymnasium.Env"):
        EnvFactory(lambda: "no")()
    with pytest.raises(ValueError, match="recipe"):
        EnvFactory(CueEnv, recipe="other")
    with pytest.raises(TypeError, match=r"CartPole-v1 cannot be played by a language model.*Discrete\(2\)"):
        EnvFactory("CartPole-v1")()


def test_an_environment_without_a_panel_has_no_number_of_tasks():
    flow = AgentEnvLoop(EnvFactory(PARROT), make_tokenizer(), max_prompt_length=8)
    assert flow.num_tasks is None
    assert AgentEnvLoop(EnvFactory(CueEnv), make_tokenizer(), max_prompt_length=8).num_tasks == 8


def walk(cursor: TaskCursor, rollout: int, panels, groups: int, samples: int = 1, seed: int = 0):
    return group_assignments(
        cursor.assignments(rollout), rollout=rollout, panels=panels, groups=groups, samples=samples, seed=seed
    )


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 3), st.integers(0, 5))
def test_every_epoch_visits_every_task_once_in_an_order_of_its_own(tasks, groups, samples, seed):
    cursor = TaskCursor({"": tasks}, seed=seed, groups=groups)
    rollouts = -(-2 * tasks // groups)
    walked = [walk(cursor, rollout, {"": tasks}, groups, samples, seed) for rollout in range(rollouts)]
    assert all(len(assigned) == groups * samples for assigned in walked)
    visits = [a.task for assigned in walked for a in assigned if a.sample == 0][: 2 * tasks]
    assert sorted(visits[:tasks]) == sorted(visits[tasks:]) == list(range(tasks))
    assert visits == [*cursor.order(0), *cursor.order(1)]
    fresh = TaskCursor({"": tasks}, seed=seed, groups=groups)
    assert walked[-1] == walk(fresh, rollouts - 1, {"": tasks}, groups, samples, seed)
    for assigned in walked:
        for a in assigned:
            twin = assigned[a.group * samples]
            assert (a.task, a.seed, a.group) == (twin.task, twin.seed, twin.group)


def test_rollouts_and_runs_draw_different_seeds():
    cursor = TaskCursor({"": 4}, seed=0, groups=4)
    seeds = [a.seed for rollout in range(10) for a in walk(cursor, rollout, {"": 4}, 4)]
    others = [a.seed for a in walk(cursor, 0, {"": 4}, 4, seed=1)]
    assert len({*seeds, *others}) == 44
    assert not (cursor.order(0) == cursor.order(1)).all() or not (cursor.order(0) == cursor.order(2)).all()
    assert TaskCursor({"": None}, seed=0, groups=3).assignments(5) == [("", None)] * 3
    assert rollouts_per_epoch({"": 4}, 4) == 1 == rollouts_per_epoch({"": 2}, 4) and rollouts_per_epoch({"": 9}, 4) == 2
    assert rollouts_per_epoch({"a": 9, "b": 7}, 4) == 4 and rollouts_per_epoch({"a": 9, "b": None}, 4) is None


def test_seeds_are_the_same_in_every_process():
    code = "from agent_r1_trainer.seeds import derive_seed; print(derive_seed(0, 'env', 3), derive_seed('a', 'bc'))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert printed == [str(derive_seed(0, "env", 3)), str(derive_seed("a", "bc"))]
    assert (
        len({derive_seed("a", "bc"), derive_seed("ab", "c"), derive_seed("abc"), derive_seed(1), derive_seed("1")}) == 5
    )
