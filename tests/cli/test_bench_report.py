import json
from pathlib import Path

import numpy as np
import pytest

from agent_r1_trainer.bench.intervals import ratio_estimates
from agent_r1_trainer.bench.records import EpisodeRecord
from agent_r1_trainer.bench.report import summarize, write_summary


def record(episode: int, success: bool, turns: int, invalid: int, error: str = "") -> EpisodeRecord:
    return EpisodeRecord(episode, "t", 0, success, float(success), 0.5, turns, invalid, "terminated", error=error)


def test_interval_of_a_proportion_is_near_the_normal_one() -> None:
    solved = np.array([1.0] * 120 + [0.0] * 280)[:, None]
    (estimate,) = ratio_estimates(solved, np.ones_like(solved))
    half = 1.96 * np.sqrt(0.3 * 0.7 / 400)
    assert estimate.value == pytest.approx(0.3)
    assert estimate.low == pytest.approx(0.3 - half, abs=0.006)
    assert estimate.high == pytest.approx(0.3 + half, abs=0.006)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        sample = rng.normal(2.0, 1.0, size=(80, 1))
        (estimate,) = ratio_estimates(sample, np.ones_like(sample), resamples=300)
        covered += estimate.low <= 2.0 <= estimate.high
    assert 180 <= covered <= 199


def test_a_ratio_weighs_episodes_by_their_turns() -> None:
    summary = summarize([record(0, True, 1, 1), record(1, False, 9, 0)])
    assert summary.invalid_rate.value == pytest.approx(0.1)
    assert summary.turns.value == 5 and summary.success.value == 0.5 and summary.reward.value == 0.5


def test_equal_input_gives_equal_intervals() -> None:
    records = [record(i, i % 3 == 0, 1 + i % 4, i % 2) for i in range(50)]
    assert summarize(records) == summarize(records)


def test_failures_are_counted_and_no_turns_are_no_division(tmp_path: Path) -> None:
    summary = summarize([record(0, False, 0, 0, error="down")])
    assert summary.failed == 1 and summary.invalid_rate.value == 0.0
    write_summary(summary, tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_text())["failed"] == 1


def test_no_episode_is_an_error() -> None:
    with pytest.raises(ValueError, match="no episodes"):
        ratio_estimates(np.zeros((0, 1)), np.zeros((0, 1)))
