"""The units of a critic, and advantages beside the size of returns."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from agent_r1_trainer.credit import CreditBatch, get, whiten
from agent_r1_trainer.learning.scoring import ValueHead
from agent_r1_trainer.learning.value_scale import SCALE_ONLY, Units, ValueScales


def restored(scales: ValueScales) -> ValueScales:
    """A copy that went through JSON."""
    twin = ValueScales(list(scales.rows))
    for env, state in json.loads(json.dumps(scales.state_dict())).items():
        twin.load_row(env, state, resume=True)
    return twin


def test_they_are_the_moments_of_all_targets_and_the_first_batch_sets_them():
    scales, seen = ValueScales(["a", "b"]), []
    rng = np.random.default_rng(0)
    for batch in range(4):
        targets = rng.normal(5.0, 3.0, size=20).tolist()
        seen += targets
        before, after = scales.update("a", targets)
        assert after.mean == pytest.approx(np.mean(seen)) and after.scale == pytest.approx(np.std(seen))
        assert (before == after) == (batch == 0) and scales.units("a") == after
    assert scales.units("b") is None
    twin = restored(scales)
    assert twin.state_dict() == scales.state_dict()
    assert twin.update("a", [9.0]) == scales.update("a", [9.0])


def test_a_target_that_is_not_finite_does_not_stay():
    good, bad = ValueScales(), ValueScales()
    assert bad.update("", [1.0, math.nan, 4.0, math.inf]) == good.update("", [1.0, 4.0])
    assert ValueScales().update("", [math.nan]) == (Units(), Units())
    empty = ValueScales()
    empty.update("", [])
    assert empty.units("") is None


def test_ten_times_the_targets_ten_times_the_units():
    for targets in ([0.0, 3.0, 1.0], [2.0, 2.0], [1e6, 1e6 + 1], [1e-9, 0.0]):
        one, ten = ValueScales().update("", targets)[1], ValueScales().update("", [10 * x for x in targets])[1]
        assert (ten.mean, ten.scale) == pytest.approx((10 * one.mean, 10 * one.scale), rel=1e-9)


def test_targets_that_do_not_vary_are_predicted_by_nothing():
    for value in (0.1, 1.0, -100.0, 0.0):
        scales = ValueScales()
        for _ in range(3):
            _, units = scales.update("", [value] * 7)
        assert (value - units.mean) / units.scale == pytest.approx(0.0, abs=1e-9)
        assert units.scale == pytest.approx(abs(value) or 1.0)
    # A critic that knew how returns differ still knows it after a batch in which all failed.
    scales = ValueScales()
    scales.load_row("", {"count": 5, "mean": 2.0, "m2": 9.0, "units": [2.0, 3.0]}, resume=False)
    before, after = scales.update("", [0.0, 0.0])
    assert before == Units(2.0, 3.0) and after == Units(0.0, 3.0)


def test_a_head_says_the_same_value_in_other_units_and_other_rows_stay():
    torch.manual_seed(0)
    head, hidden = ValueHead(16, rows=3), torch.randn(9, 16)
    torch.nn.init.normal_(head.linear.weight)
    rows = torch.tensor([0, 1, 2] * 3)
    before = head(hidden, rows).double()
    old, new = Units(100.0, 2.0), Units(103.0, 0.5)
    head.change_units(1, *old.change(new))
    after = head(hidden, rows).double()
    assert torch.equal(before[rows != 1], after[rows != 1])
    torch.testing.assert_close(103.0 + 0.5 * after[rows == 1], 100.0 + 2.0 * before[rows == 1], atol=1e-5, rtol=0)


def test_values_of_a_single_scale_are_read_with_the_scale_of_this_run():
    scales = ValueScales()
    scales.load_row("", {"count": 0, "mean": 0.0, "m2": 0.0, "units": [0.0, math.nan]}, resume=False)
    assert math.isnan(scales.units("").scale) and math.isnan(SCALE_ONLY.scale)
    before, after = scales.update("", [1.0, 5.0])
    assert before == Units(0.0, 2.0) and after == Units(3.0, 2.0)


@pytest.mark.parametrize("name", ["step_gae", "token_gae"])
def test_advantages_that_are_small_beside_the_returns_stay_small(name):
    rng = np.random.default_rng(1)
    values = rng.normal(size=12)
    trajectory = np.repeat(np.arange(4), 3)

    def credit(scale):
        batch = CreditBatch(
            rewards=np.zeros(12), values=values, trajectory=trajectory, final_values=np.zeros(4), groups=np.arange(4),
            token_values=values, scales=None if scale is None else np.full(4, scale),
        )  # fmt: skip
        return get(name)(batch, gamma=0.9, lam=0.8)

    plain = credit(None)
    raw = plain.returns - values
    assert plain.advantages == pytest.approx(whiten(raw))
    assert credit(0.01).advantages == pytest.approx(plain.advantages)
    assert credit(np.std(raw)).advantages == pytest.approx(plain.advantages)
    assert credit(np.std(raw) * 10).advantages == pytest.approx(plain.advantages / 10)
    assert credit(1e9).advantages.tolist() == [0.0] * 12
    assert credit(5.0).returns == pytest.approx(plain.returns)


def test_environments_that_are_whitened_together_are_compared_in_their_own_units():
    x = np.array([1.0, -1.0, 30.0, -10.0])
    scales = np.array([1.0, 1.0, 10.0, 10.0])
    assert whiten(x, scales) == pytest.approx(whiten(x / scales))
    assert whiten(0.01 * x, scales) == pytest.approx((x / scales - np.mean(x / scales)) * 0.01)


@pytest.mark.parametrize("scales", [[1.0], [1.0, 0.0], [1.0, np.nan]])
def test_scales_of_a_batch_are_checked(scales):
    with pytest.raises(ValueError, match="scales must have one entry above 0 for each of 2 trajectories"):
        CreditBatch([1.0, 0.0], [0.0, 0.0], [0, 1], [0.0, 0.0], [0, 1], scales=scales)


def test_selected_trajectories_keep_their_scales():
    batch = CreditBatch([1.0, 0.0], [0.0, 0.0], [0, 1], [0.0, 0.0], [0, 1], scales=[1.0, 5.0])
    assert batch.select([False, True]).scales.tolist() == [5.0]
