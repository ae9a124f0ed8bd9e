"""Credit per environment, and groups without variance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from agent_r1_trainer import StepPOConfig
from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.learning.assignment import CreditAssigner
from agent_r1_trainer.learning.experience import BatchFacts
from agent_r1_trainer.learning.make_experience import zero_variance
from agent_r1_trainer.learning.value_scale import ValueScales
from tests.helpers.training import CueEnv, make_trainer, measured, weights
from tests.helpers.updates import make_trajectories, one_update


def config(**kwargs) -> StepPOConfig:
    defaults = {"use_cpu": True, "report_to": [], "gamma": 0.9, "lam": 0.8, "num_generations": 2}
    return StepPOConfig("unused", **{**defaults, **kwargs})


def facts(*rows: tuple[str, int, list[float], list[int]]) -> list[BatchFacts]:
    return [
        BatchFacts(rewards, lengths, units=[len(rewards)], group=group, bootstrapped=False, env=env)
        for env, group, rewards, lengths in rows
    ]


MIXED = facts(
    ("a", 0, [0.0, 1.0], [2, 1]),
    ("b", 0, [5.0], [3]),
    ("a", 0, [0.5], [0]),
    ("b", 0, [0.0, 0.0, 10.0], [1, 0, 2]),
    ("a", 1, [1.0, 1.0], [1, 2]),
)
STEPS, TOKENS = np.array([2, 1, 1, 3, 2]), np.array([3, 3, 0, 3, 3])


@pytest.mark.parametrize("name", ["grpo", "rloo", "reinforce_pp", "step_gae", "token_gae"])
def test_each_environment_gets_the_credit_it_would_get_alone(name):
    counts = TOKENS if name == "token_gae" else STEPS
    owner = np.repeat(np.arange(5), counts)
    values = np.random.default_rng(0).normal(size=counts.sum())
    penalties, finals = np.zeros(9), np.zeros(5)
    valued = name in ("step_gae", "token_gae")

    def assign(which: list[int], **kwargs):
        assigner = CreditAssigner(
            config(advantage_estimator=name, **kwargs), ValueScales(["a", "b"]) if valued else None
        )
        steps = np.repeat(np.isin(np.arange(5), which), STEPS)
        part = [MIXED[index] for index in which]
        return assigner.assign(part, values[np.isin(owner, which)], penalties[steps], finals[which])

    together = assign([0, 1, 2, 3, 4])
    for env, which in (("a", [0, 2, 4]), ("b", [1, 3])):
        alone = assign(which)
        mine = np.isin(owner, which)
        assert together.advantages[mine] == pytest.approx(alone.advantages)
        assert together.returns[mine] == pytest.approx(alone.returns)
        assert together.values[mine] == pytest.approx(alone.values)
        assert bool(together.returns.any()) == valued == (env in together.units)
        assert together.metrics.get(f"{env}/value/scale") == alone.metrics.get(f"{env}/value/scale")
    # All at once is another thing where the estimator whitens; a group is of one environment all the same.
    at_once = assign([0, 1, 2, 3, 4], whitening_scope="batch")
    same = at_once.advantages == pytest.approx(together.advantages)
    assert same == (name in ("grpo", "rloo"))


def test_whitened_together_environments_are_compared_in_units_of_their_own_returns():
    tenfold = [replace(fact, rewards=[10 * r for r in fact.rewards]) if fact.env == "b" else fact for fact in MIXED]
    answers = [
        CreditAssigner(config(whitening_scope="batch"), ValueScales(["a", "b"])).assign(
            rows, np.linspace(-1, 1, 9), np.zeros(9), np.zeros(5)
        )
        for rows in (MIXED, tenfold)
    ]
    assert answers[0].advantages == pytest.approx(answers[1].advantages)


def test_rewards_are_multiplied_and_less_the_penalty():
    envs = {"a": MixtureEntry(CueEnv, reward_scale=2.0), "b": MixtureEntry(CueEnv, reward_scale=0.1)}
    assigner = CreditAssigner(config(advantage_estimator="reinforce_pp"), None, envs)
    penalties = np.arange(9.0) / 10
    assert assigner._batch(MIXED, penalties).rewards == pytest.approx(
        np.array([0.0, 2.0, 0.5, 1.0, 0.0, 0.0, 1.0, 2.0, 2.0]) - penalties
    )


def test_options_reach_the_estimator_and_bad_ones_are_refused_at_once():
    plain, dr = (
        CreditAssigner(config(advantage_estimator="grpo", advantage_kwargs=kwargs), None)
        for kwargs in (None, {"normalize_std": False})
    )
    arguments = (MIXED, np.zeros(9), np.zeros(9), np.zeros(5))
    assert dr.assign(*arguments).advantages[0] == pytest.approx(0.25)  # 1 against 1 and 0.5, no standard deviation
    assert plain.assign(*arguments).advantages[0] > 0.6
    assert config(advantage_estimator="grpo", advantage_kwargs='{"normalize_std": false}').advantage_kwargs == {
        "normalize_std": False
    }
    for kwargs, message in (
        ({"advantage_kwargs": {"normalize_std": False}}, "step_gae"),
        ({"advantage_estimator": "grpo", "advantage_kwargs": {"normalise": True}}, "normalize_std"),
        ({"advantage_estimator": "grpo", "critic_warmup_steps": 4}, "no critic"),
    ):
        with pytest.raises(ValueError, match=message):
            config(**kwargs)


def test_groups_without_variance():
    rows = facts(
        ("", 0, [0.1, 0.2], [1, 1]), ("", 0, [0.2, 0.1 + 1e-12], [1, 1]),  # equal but for rounding
        ("", 1, [1.0], [1]), ("", 1, [0.0], [1]),
        ("", 2, [1.0], [1]),  # a group of one never counts
        ("x", 2, [7.0], [1]),  # nor is it a group with that of another environment
    )  # fmt: skip
    flags, share = zero_variance(rows)
    assert flags == [True, True, False, False, False, False] and share == 0.5
    assert zero_variance([])[0] == [] and math.isnan(zero_variance(rows[4:])[1])


@pytest.mark.parametrize("name", ["step_gae", "reinforce_pp_baseline", "token_gae", "gigpo"])
def test_filtered_groups_leave_the_update_and_its_statistics(name):
    trajectories = make_trajectories(seed=7, groups=4)
    for trajectory in trajectories:
        if trajectory.group in (1, 3):
            for step in trajectory.steps:
                step.reward = 0.0
    mixed = [trajectory for trajectory in trajectories if trajectory.group in (0, 2)]
    settings = {"advantage_estimator": name, "gamma": 0.9}
    _, gradients, experience, metrics = one_update(trajectories, filter_zero_variance_groups=True, **settings)
    _, expected, alone, other = one_update(mixed, **settings)
    assert metrics["groups/zero_variance_ratio"] == 0.5 and other["groups/zero_variance_ratio"] == 0.0
    assert torch.equal(experience.advantages, alone.advantages)
    assert all(torch.equal(gradients[key], expected[key]) for key in expected)
    _, _, everything, metrics = one_update(trajectories, **settings)
    assert metrics["groups/zero_variance_ratio"] == 0.5
    assert everything.layout.num_steps > experience.layout.num_steps


@pytest.mark.parametrize("estimator", ["grpo", "token_gae"])
def test_a_rollout_of_which_nothing_is_left_is_no_failure(estimator, tmp_path):
    trainer = make_trainer(
        tmp_path, env=lambda: CueEnv(scale=0.0), max_steps=8, logging_steps=1, num_generations=4, weight_decay=0.1,
        advantage_estimator=estimator, filter_zero_variance_groups=True, max_skipped_updates=1,
    )  # fmt: skip
    before = weights(trainer)
    trainer.train()
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())
    log = [entry for entry in measured(trainer) if "loss" in entry]
    assert all(entry["skipped_updates"] == entry["loss"] == 0.0 for entry in log) and len(log) == 8
    assert [entry["groups/zero_variance_ratio"] for entry in log if "reward" in entry] == [1.0, 1.0]
