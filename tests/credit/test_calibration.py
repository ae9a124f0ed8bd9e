"""How far a critic's values are believed."""

import math

import numpy as np
import pytest

from agent_r1_trainer.credit import Calibration, calibrate


def test_it_is_least_squares_where_its_slope_is_a_share():
    rng = np.random.default_rng(0)
    values = rng.normal(2.0, 3.0, size=50)
    targets = 1.0 + 0.6 * values + rng.normal(size=50)
    slope, offset = np.polyfit(values, targets, 1)
    assert calibrate(values, targets) == pytest.approx((offset, slope))
    found = calibrate(values, targets).apply(values)
    assert np.mean(found) == pytest.approx(np.mean(targets))
    assert np.mean((targets - found) ** 2) <= np.mean((targets - values) ** 2)


def test_a_critic_that_knows_its_states_keeps_its_word_and_one_that_errs_the_wrong_way_has_none():
    rng = np.random.default_rng(1)
    values = rng.normal(size=4000)
    assert calibrate(values, values + rng.normal(size=4000)).slope == pytest.approx(1.0, abs=0.05)
    assert calibrate(values, 3 * values).slope == 1.0
    assert calibrate(values, -values).slope == 0.0


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e6])
def test_where_returns_do_not_differ_nothing_is_left_of_the_differences(value):
    values, targets = np.random.default_rng(2).normal(size=30), np.full(30, value)
    assert np.ptp(calibrate(values, targets).apply(values)) <= 1e-12 * max(1.0, abs(value))


def test_it_follows_offsets_and_scales():
    rng = np.random.default_rng(3)
    values, targets = rng.normal(size=20), rng.normal(size=20)
    for offset, scale in ((100.0, 1.0), (0.0, 10.0), (-3.0, 0.01)):
        moved = calibrate(offset + scale * values, offset + scale * targets)
        expected = offset + scale * calibrate(values, targets).apply(values)
        assert moved.apply(offset + scale * values) == pytest.approx(expected)


def test_values_that_do_not_differ_mean_the_mean_and_what_is_not_finite_is_left_out():
    assert calibrate(np.full(3, 7.0), np.array([1.0, 2.0, 3.0])).apply(np.full(3, 7.0)).tolist() == [2.0, 2.0, 2.0]
    bad = calibrate(np.array([1.0, math.nan, 2.0, 3.0]), np.array([2.0, 9.0, math.inf, 4.0]))
    assert bad == calibrate(np.array([1.0, 3.0]), np.array([2.0, 4.0]))
    assert calibrate(np.zeros(0), np.zeros(0)) == Calibration(0.0, 1.0)
    assert calibrate(np.array([math.nan]), np.array([1.0])) == Calibration(0.0, 1.0)
