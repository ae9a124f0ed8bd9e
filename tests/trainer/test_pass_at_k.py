"""pass@k against every choice of k samples, and what an evaluation makes of it."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_trainer.metrics import EpisodeSummary, pass_at_k, pass_metrics, tries
from agent_r1_trainer.trainer.evaluation import evaluation_metrics
from agent_r1_trainer.trajectory import StopReason


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_the_estimate_is_the_share_of_choices_with_a_success(outcomes, data):
    k = data.draw(st.integers(1, len(outcomes)))
    choices = [any(choice) for choice in itertools.combinations(outcomes, k)]
    assert pass_at_k(len(outcomes), sum(outcomes), k) == pytest.approx(sum(choices) / len(choices))


def test_what_is_reported():
    assert [tries(n) for n in (1, 2, 4, 6, 8)] == [[1], [1, 2], [1, 2, 4], [1, 2, 4, 6], [1, 2, 4, 8]]
    for numbers in ((3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)):
        with pytest.raises(ValueError, match="pass@k needs"):
            pass_at_k(*numbers)


def episode(group: int, success: bool, env: str = "", masked: bool = False) -> EpisodeSummary:
    return EpisodeSummary(
        reward=float(success),
        success=success,
        score=float(success),
        stop=StopReason.FAILED if masked else StopReason.TERMINATED,
        masked=masked,
        lengths=[1],
        cut=0,
        invalid=0,
        tokens=3,
        reward_info={},
        env=env,
        group=group,
    )


def test_tasks_count_alike_and_masked_episodes_do_not():
    episodes = [episode(0, s) for s in (True, False, False, False)] + [episode(1, True) for _ in range(3)]
    episodes.append(episode(1, False, masked=True))
    metrics = pass_metrics(episodes, 4)
    assert metrics == {"pass@1": pytest.approx((0.25 + 1) / 2), "pass@2": pytest.approx(0.75), "pass@4": 1.0}
    # The second task has three usable samples: it says nothing about four.
    assert pass_metrics(episodes[1:4] + episodes[4:], 4)["pass@2"] == pytest.approx(0.5)
    assert math.isnan(pass_metrics(episodes[4:], 4)["pass@4"])
    assert pass_metrics(episodes, 1) == {}


def test_the_whole_is_the_mean_over_environments_not_over_episodes():
    many = [episode(group, False, "many") for group in range(9)]
    metrics = evaluation_metrics([*many, episode(9, True, "few")])
    assert metrics["success"] == 0.5 and metrics["many_success"] == 0.0 and metrics["few_success"] == 1.0
    assert metrics["steps"] == 10 and metrics["few_steps"] == 1
    alone = evaluation_metrics([episode(0, True), episode(1, False)], 1, only=("success",), prefix="greedy_")
    assert alone == {"greedy_success": 0.5}
    broken = evaluation_metrics([*many, episode(9, False, "few", masked=True)])
    assert math.isnan(broken["success"]) and broken["many_success"] == 0.0
