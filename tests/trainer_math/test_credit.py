"""The registry, bootstraps, and the scale of rewards."""

import json
import math
import random

import numpy as np
import pytest

from agent_r1_trainer.credit import (
    ESTIMATORS,
    Credit,
    EstimatorRegistry,
    Moments,
    RewardScaler,
    bootstraps,
    final_values,
    get,
    names,
    value_queries,
)
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory


class TestRegistry:
    def test_known(self):
        assert "step_gae" in names()
        assert get("step_gae").needs_values
        assert ESTIMATORS.get("step_gae") is get("step_gae")

    def test_unknown_names_the_known(self):
        with pytest.raises(ValueError, match="unknown advantage estimator 'gae'.*step_gae"):
            get("gae")

    def test_register(self):
        registry = EstimatorRegistry()

        @registry.register("zero", needs_values=False)
        def zero(batch, *, gamma, lam):
            return Credit(np.zeros_like(batch.rewards))

        registry.register("zero", needs_values=False)(zero)  # a module that is imported twice
        assert registry.names() == ["zero"] and registry.get("zero").function is zero
        with pytest.raises(ValueError, match="already"):
            registry.register("zero", needs_values=False)(lambda batch, *, gamma, lam: None)


def trajectory(stop, *, terminated=False, final=(3, 4), masked=False):
    step = Step([1], [2], terminated=terminated, truncated=stop is not StopReason.TERMINATED)
    return Trajectory("a", [step], stop, final_prompt_ids=list(final) or None, masked=masked, group=3, sample=1)


class TestBootstrap:
    @pytest.mark.parametrize(
        ("case", "auto", "value"),
        [
            (trajectory(StopReason.TERMINATED, terminated=True), False, False),
            (trajectory(StopReason.TURN_LIMIT), False, True),
            (trajectory(StopReason.TURN_LIMIT, terminated=True), False, False),
            (trajectory(StopReason.FOREIGN_LIMIT), True, True),
            (trajectory(StopReason.FOREIGN_LIMIT, final=()), False, False),
            (trajectory(StopReason.PROMPT_TOO_LONG, final=()), False, False),
            (trajectory(StopReason.FAILED, masked=True), False, False),
        ],
    )
    def test_modes(self, case, auto, value):
        assert bootstraps(case, "auto") is auto
        assert bootstraps(case, "value") is value
        assert bootstraps(case, "none") is False

    def test_unknown_mode(self):
        with pytest.raises(ValueError, match="auto, none, value"):
            bootstraps(trajectory(StopReason.TURN_LIMIT), "always")

    def test_queries(self):
        which, queries = value_queries([trajectory(StopReason.TURN_LIMIT), trajectory(StopReason.FOREIGN_LIMIT)])
        assert which == [1]
        assert queries[0].steps[0].prompt_ids == [3, 4] and queries[0].steps[0].response_ids == []
        assert (queries[0].group, queries[0].sample) == (3, 1)
        assert final_values(3, which, [0.5]).tolist() == [0.0, 0.5, 0.0]
        assert final_values(2, [], []).tolist() == [0.0, 0.0]


def random_rewards(seed, count=20):
    rng = random.Random(seed)
    return [[rng.choice([0.0, -0.1, 1.0]) for _ in range(rng.randint(1, 12))] for _ in range(count)]


def all_returns(batches, gamma):
    return [
        sum(gamma**k * r for k, r in enumerate(rewards[t:]))
        for batch in batches
        for rewards in batch
        for t in range(len(rewards))
    ]


class TestRewardScaler:
    def test_a_return_that_is_not_finite_does_not_stay_in_the_scale(self):
        good, bad = RewardScaler(0.9), RewardScaler(0.9)
        clean = [[1.0, 0.0, 3.0], [2.0]]
        assert bad.update([*clean, [math.nan], [math.inf, -math.inf], [math.inf]]) == good.update(clean)

    def test_running_std_of_discounted_returns(self):
        scaler = RewardScaler(gamma=0.9)
        batches = [random_rewards(seed) for seed in range(5)]
        for count, batch in enumerate(batches, 1):
            scale = scaler.update(batch)
            assert scale == pytest.approx(np.std(all_returns(batches[:count], 0.9)), rel=1e-12)
        assert scaler.scale == scale

    def test_ten_times_the_rewards_ten_times_the_scale(self):
        for rewards in (random_rewards(0), [[2.0], [2.0]], [[0.0, 1e-9], [2.0]]):
            one, ten = RewardScaler(0.9), RewardScaler(0.9)
            one.update(rewards)
            ten.update([[10.0 * r for r in row] for row in rewards])
            assert ten.scale == pytest.approx(10.0 * one.scale, rel=1e-12)

    def test_nothing_to_scale_by(self):
        scaler = RewardScaler(0.9)
        assert scaler.scale == 1.0
        assert scaler.update([[0.0, 0.0], [0.0]]) == 1.0
        assert scaler.update([]) == 1.0
        constant = RewardScaler(1.0)
        assert constant.update([[7.0], [7.0]]) == 7.0

    def test_state_goes_through_json_exactly(self):
        scaler, copy = RewardScaler(0.9), RewardScaler(0.9)
        scaler.update(random_rewards(1))
        copy.load_state_dict(json.loads(json.dumps(scaler.state_dict())))
        assert copy.scale == scaler.scale
        assert copy.update(random_rewards(2)) == scaler.update(random_rewards(2))

    def test_moments_do_not_depend_on_the_order_of_trajectories(self):
        rewards = random_rewards(3, count=200)
        shuffled = random.Random(0).sample(rewards, len(rewards))
        scaler = RewardScaler(0.97)
        assert scaler.returns_moments(rewards) == scaler.returns_moments(shuffled)

    @pytest.mark.parametrize("ranks", [1, 2, 3, 7])
    def test_merging_ranks(self, ranks):
        rewards = random_rewards(4, count=21)
        whole, parts = RewardScaler(0.9), RewardScaler(0.9)
        whole.update(rewards)
        parts.update_moments([parts.returns_moments(rewards[rank::ranks]) for rank in range(ranks)])
        assert parts.moments.count == whole.moments.count
        assert parts.scale == pytest.approx(whole.scale, rel=1e-13)

    def test_merging_nothing(self):
        some = Moments.of([1.0, 2.0])
        assert some.merge(Moments()) == some
        assert Moments().merge(some) == some
        assert Moments().merge(Moments()).std == 0.0

    def test_a_large_offset_does_not_hurt(self):
        moments = Moments.of(1e9 + x for x in (0.0, 1.0)).merge(Moments.of(1e9 + x for x in (2.0, 3.0)))
        assert moments.std == pytest.approx(math.sqrt(1.25), rel=1e-9)
