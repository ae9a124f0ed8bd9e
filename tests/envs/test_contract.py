"""The contract, on every env: the directory of the tests and all registered ids."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from agent_r1_envs.actions import MalformedAction
from agent_r1_envs.errors import ResetNeeded
from tests.helpers.contract import base, check_random_actions, check_reset, check_step
from tests.helpers.registered import all_ids


@pytest.fixture(params=all_ids())
def env(request: pytest.FixtureRequest) -> gymnasium.Env:
    return gymnasium.make(request.param, max_episode_steps=-1)


@pytest.mark.parametrize("env_id", all_ids())
def test_check_env_is_silent(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(env_id, disable_env_checker=True).unwrapped)


@pytest.mark.parametrize(("seed", "actions"), [(0, 2_000), pytest.param(1, 16_000, marks=pytest.mark.slow)])
def test_random_actions_raise_nothing_and_change_nothing_when_invalid(
    env: gymnasium.Env, seed: int, actions: int
) -> None:
    counts = check_random_actions(env, actions=actions, seed=seed)
    assert counts["invalid"] > actions / 2
    assert counts["valid"] > actions / 40


@pytest.mark.parametrize(
    "action", [None, 3, b"search[a]", ["a"], {"name": "x"}, np.array([1]), "\ud800", "", "x" * 70_000]
)
def test_what_is_no_action_is_refused(env: gymnasium.Env, action: object) -> None:
    check_reset(env, seed=1)
    *_, info = check_step(env, action)
    assert info["invalid_action"]


def test_malformed_actions_are_answered_with_their_reason(env: gymnasium.Env) -> None:
    check_reset(env, seed=1)
    good = base(env).expert_action()
    *_, info = check_step(env, MalformedAction(good, "no tag \ud800 found"))
    assert info["invalid_action"] == "no tag \N{REPLACEMENT CHARACTER} found"


def test_tasks_are_chosen_by_position_and_id_without_a_random_number(env: gymnasium.Env) -> None:
    check_reset(env, seed=3)
    rng = base(env).get_state()["rng"]
    ids = base(env).tasks.ids
    for choice in (1, np.int64(1), np.uint8(1), ids[1]):
        _, info = check_reset(env, options={"task": choice})
        assert info["task_id"] == ids[1]
    assert base(env).get_state()["rng"] == rng


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        (None, TypeError),
        (True, TypeError),
        (1.0, TypeError),
        (np.float64(1), TypeError),
        ([1], TypeError),
        (b"x", TypeError),
        (-1, IndexError),
        (10**9, IndexError),
        ("no such id", KeyError),
    ],
)
def test_other_choices_raise(env: gymnasium.Env, choice: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        env.reset(options={"task": choice})


def test_bad_options_change_nothing(env: gymnasium.Env) -> None:
    check_reset(env, seed=3)
    before = base(env).get_state()
    with pytest.raises(KeyError):
        env.reset(seed=4, options={"task": "no such id"})
    assert base(env).get_state() == before


def test_unknown_options_raise(env: gymnasium.Env) -> None:
    with pytest.raises(ValueError, match="'tsak'"):
        env.reset(options={"tsak": 1})


def test_step_before_reset_and_after_the_end_raises(env: gymnasium.Env) -> None:
    bare = base(env)
    with pytest.raises(ResetNeeded):
        bare.step("x")
    bare.reset(options={"task": 0})
    terminated = False
    for _ in range(100):
        *_, terminated, _, info = bare.step(bare.expert_action())
        if terminated:
            break
    assert terminated and info["success"] and info["score"] == 1.0
    with pytest.raises(ResetNeeded):
        bare.step("x")
    bare.reset()


def test_the_expert_solves_every_task_of_the_default_panel(env: gymnasium.Env) -> None:
    count = len(base(env).tasks)
    for position in range(0, count, max(1, count // 200)):
        env.reset(options={"task": position})
        terminated = False
        while not terminated:
            *_, terminated, _, info = env.step(base(env).expert_action())
            assert "invalid_action" not in info
        assert info["score"] == 1.0, info["task_id"]


def test_the_protocol_names_the_registered_turn_limit(env: gymnasium.Env) -> None:
    _, info = env.reset()
    assert info["protocol"]["turns"] == gymnasium.spec(env.spec.id).max_episode_steps
