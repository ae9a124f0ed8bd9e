import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agent_r1_trainer.bench.episode import EpisodeRecord
from agent_r1_trainer.bench.report import paired_difference, ratio_estimates, share_estimate, summarize, write_summary
from agent_r1_trainer.bench.settings import AgentSpec
from agent_r1_trainer.commands.bench import show


def record(episode: int, success: bool, turns: int, invalid: int, error: str = "") -> EpisodeRecord:
    return EpisodeRecord(episode, "t", 0, success, float(success), 0.5, turns, invalid, "terminated", error=error)


def test_interval_of_a_proportion_is_near_the_normal_one() -> None:
    estimate = share_estimate([1.0] * 120 + [0.0] * 280)
    half = 1.96 * np.sqrt(0.3 * 0.7 / 400)
    assert estimate.value == pytest.approx(0.3)
    assert estimate.low == pytest.approx(0.3 - half, abs=0.006)
    assert estimate.high == pytest.approx(0.3 + half, abs=0.006)


@pytest.mark.parametrize("episodes", [1, 10, 300])
def test_no_success_and_nothing_but_success_are_no_certainty(episodes: int) -> None:
    """A bootstrap of equal episodes said 0 to 0, and 1 to 1."""
    summary = summarize([record(i, False, 3, 0) for i in range(episodes)])
    high = 3.8414588 / (episodes + 3.8414588)
    for figure in (summary.score, summary.success, summary.invalid_rate):
        assert (figure.value, figure.low) == (0.0, 0.0) and figure.high == pytest.approx(high, rel=1e-6)
    summary = summarize([record(i, True, 3, 3) for i in range(episodes)])
    for figure in (summary.score, summary.success, summary.invalid_rate):
        assert (figure.value, figure.high) == (1.0, 1.0) and figure.low == pytest.approx(1 - high, rel=1e-6)


def test_wilsons_interval_by_hand() -> None:
    # 3 of 10: (0.3 + z^2/20 +- z sqrt(0.021 + z^2/400)) / (1 + z^2/10)
    estimate = share_estimate([1, 1, 1, 0, 0, 0, 0, 0, 0, 0])
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.3, 0.107789, 0.603222), abs=1e-5)


def test_scores_between_0_and_1_are_bootstrapped_and_empty_episodes_say_nothing() -> None:
    scores = [0.25, 0.5, 1.0, 0.0] * 20
    (bootstrap,) = ratio_estimates(np.array(scores)[:, None], np.ones((80, 1)))
    assert share_estimate(scores) == bootstrap
    assert share_estimate([0, 0, 0], [2, 0, 3]) == share_estimate([0, 0])
    nothing = share_estimate([0, 0], [0, 0])
    assert (nothing.value, nothing.low, nothing.high) == (0.0, 0.0, 1.0)


def test_paired_differences_cover_the_truth_at_the_ends_too() -> None:
    rng = np.random.default_rng(7)
    for before, after in ((0.5, 0.7), (0.02, 0.02), (0.01, 0.99), (0.95, 0.99)):
        covered = 0
        for _ in range(400):
            luck = rng.random(60)  # shared by half of the tasks, so that pairs are alike
            first, second = luck < before, np.where(rng.random(60) < 0.5, luck, rng.random(60)) < after
            estimate = paired_difference(first.astype(int).tolist(), second.astype(int).tolist())
            assert -1.0 <= estimate.low < estimate.high <= 1.0
            covered += estimate.low <= after - before <= estimate.high
        assert covered >= 370
    with pytest.raises(ValueError, match="pairs"):
        paired_difference([1], [])


def test_a_figure_without_spread_is_printed_without_an_interval(tmp_path: Path, capsys: Any) -> None:
    run = SimpleNamespace(
        settings=SimpleNamespace(agent=AgentSpec("random"), env="e"), split="test", folder=tmp_path, records=[], jobs=[]
    )
    show(summarize([record(i, False, 3, 0) for i in range(10)]), run)  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    assert printed.count("no spread") == 2 and printed.count("0.000 .. 0.278") == 3


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
