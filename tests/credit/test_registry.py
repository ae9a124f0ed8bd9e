"""The registry, bootstraps, and running moments."""

import math
import random

import numpy as np
import pytest

from agent_r1_trainer.credit import (
    ESTIMATORS,
    Credit,
    CreditBatch,
    EstimatorRegistry,
    Moments,
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


class TestOptions:
    def setup_method(self):
        self.registry = EstimatorRegistry()

        @self.registry.register("mine", needs_values=False)
        def mine(
            batch, *, gamma, lam, scale: float = 1.0, count: int = 2, centre: bool = True, mode: str = "a", x=None
        ):
            if mode not in ("a", "b"):
                raise ValueError(f"mode must be 'a' or 'b', got {mode!r}")
            return Credit(scale * batch.rewards)

        self.mine = self.registry.get("mine")

    def test_they_are_read_off_the_signature(self):
        assert self.mine.options == {"scale": 1.0, "count": 2, "centre": True, "mode": "a", "x": None}
        assert dict(get("gigpo").options) == {"step_weight": 1.0, "normalize_std": True}
        assert dict(get("grpo").options) == {"normalize_std": True} and not get("rloo").options

    def test_they_reach_the_function(self):
        batch = CreditBatch(rewards=[1.0], values=[0.0], trajectory=[0], final_values=[0.0], groups=[0])
        assert self.mine(batch, gamma=1.0, lam=1.0, scale=3).advantages.tolist() == [3.0]
        assert self.mine(batch, gamma=1.0, lam=1.0).advantages.tolist() == [1.0]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"scal": 1.0}, "no option 'scal'; its options are: scale=1.0, count=2, centre=True, mode='a', x=None"),
            ({"scale": "1"}, "scale.*must be a float, got '1'; its options are: scale=1.0"),
            ({"scale": True}, "must be a float, got True"),
            ({"scale": math.nan}, "must be a float, got nan"),
            ({"count": 2.5}, "must be a int, got 2.5"),
            ({"count": True}, "must be a int, got True"),
            ({"centre": 1}, "must be a bool, got 1"),
            ({"mode": 3}, "must be a str, got 3"),
            ({"mode": "c"}, "mode must be 'a' or 'b'"),
            ({"gamma": 0.5}, "no option 'gamma'"),
        ],
    )
    def test_bad_ones_are_refused_before_a_batch_is_there(self, options, message):
        with pytest.raises(ValueError, match=message):
            self.mine.check(options)

    def test_good_ones_pass(self):
        self.mine.check({"scale": 2, "count": 3, "centre": False, "mode": "b", "x": [1]})

    def test_without_options_the_function_is_not_called(self):
        @self.registry.register("largest", needs_values=False)
        def largest(batch, *, gamma, lam):
            return Credit(advantages=batch.rewards / batch.rewards.max())  # cannot do with a batch of nothing

        self.registry.get("largest").check({})

    def test_an_estimator_without_options_says_so(self):
        with pytest.raises(ValueError, match="'rloo' has no option 'normalize_std'; it has none"):
            get("rloo").check({"normalize_std": True})

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda batch, *, gamma: None, "must take gamma and lam"),
            (lambda batch, *, gamma, lam, scale: None, "'scale'.*keyword-only parameter with a default"),
            (lambda batch, scale=1.0, *, gamma, lam: None, "'scale'.*keyword-only"),
            (lambda batch, *, gamma, lam, **rest: None, "'rest'.*keyword-only"),
        ],
    )
    def test_a_signature_that_hides_its_options_is_refused(self, function, message):
        with pytest.raises(ValueError, match=message):
            self.registry.register("bad", needs_values=False)(function)
        assert self.registry.names() == ["mine"]

    def test_levels(self):
        assert [get(name).level for name in ("step_gae", "token_gae", "grpo")] == ["step", "token", "step"]
        assert [name for name in names() if get(name).needs_anchors] == ["gigpo"]
        compare = ["gigpo", "grpo", "reinforce_pp_baseline", "rloo"]
        assert [name for name in names() if get(name).needs_groups] == compare
        with pytest.raises(ValueError, match="'step' or 'token', got 'word'"):
            self.registry.register("bad", needs_values=False, level="word")

    def test_an_answer_of_the_wrong_size_is_refused(self):
        batch = CreditBatch(
            rewards=[1.0, 1.0],
            values=[0, 0],
            trajectory=[0, 0],
            final_values=[0.0],
            groups=[0],
            response_lengths=[2, 3],
        )
        for level, size in (("step", 2), ("token", 5)):
            for count, needs_values in ((2, False), (5, False), (size, True)):
                self.registry = EstimatorRegistry()
                self.registry.register("some", needs_values=needs_values, level=level)(
                    lambda batch, *, gamma, lam, count=count: Credit(np.zeros(count))
                )
                estimator = self.registry.get("some")
                if count == size and not needs_values:
                    assert estimator(batch, gamma=1.0, lam=1.0).advantages.size == size
                else:
                    with pytest.raises(ValueError, match=f"'some' must give .* of {size} entries"):
                        estimator(batch, gamma=1.0, lam=1.0)


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


class TestMoments:
    def test_they_are_those_of_all_batches_together(self):
        moments = Moments()
        batches = [all_returns([random_rewards(seed)], 0.9) for seed in range(5)]
        for count, batch in enumerate(batches, 1):
            moments = moments.merge(Moments.of(batch))
            assert moments.mean == pytest.approx(np.mean(sum(batches[:count], [])), rel=1e-12)
            assert moments.std == pytest.approx(np.std(sum(batches[:count], [])), rel=1e-12)

    def test_they_do_not_depend_on_the_order(self):
        numbers = all_returns([random_rewards(3, count=200)], 0.97)
        assert Moments.of(numbers) == Moments.of(random.Random(0).sample(numbers, len(numbers)))

    def test_merging_nothing(self):
        some = Moments.of([1.0, 2.0])
        assert some.merge(Moments()) == some
        assert Moments().merge(some) == some
        assert Moments().merge(Moments()).std == 0.0

    def test_a_large_offset_does_not_hurt(self):
        moments = Moments.of(1e9 + x for x in (0.0, 1.0)).merge(Moments.of(1e9 + x for x in (2.0, 3.0)))
        assert moments.std == pytest.approx(math.sqrt(1.25), rel=1e-9)
