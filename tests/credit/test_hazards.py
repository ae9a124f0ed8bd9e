"""Mistakes that credit was seen to have elsewhere: each kept as a small function that the test tells apart."""

import math

import numpy as np
import pytest

from agent_r1_trainer.credit import CreditBatch, get, step_advantages, whiten
from tests.helpers.credit import random_episodes, to_batch

EPISODES = random_episodes(11, 24)
BATCH = to_batch(EPISODES)


def advantages(name, batch=BATCH, **kwargs):
    return get(name)(batch, **{"gamma": 0.9, "lam": 1.0, **kwargs}).advantages


def test_the_last_action_counts_once():
    """Faulty: the last row is copied to carry the terminal reward."""

    def with_a_copied_row(episode, gamma):
        rewards = [turn.reward for turn in episode.turns[:-1]] + [0.0, episode.turns[-1].reward]
        values = [turn.value for turn in episode.turns] + [episode.turns[-1].value]
        result, following = [], 0.0
        for t in reversed(range(len(rewards))):
            following = rewards[t] + gamma * following
            result.append(following - values[t])
        return result[::-1]

    episode = next(episode for episode in EPISODES if len(episode.turns) > 2 and episode.turns[-1].reward)
    episode.final = 0.0
    batch = to_batch([episode])
    ours = step_advantages(batch, gamma=0.9, lam=1.0)
    expected = [
        sum(0.9**k * turn.reward for k, turn in enumerate(episode.turns[t:])) - episode.turns[t].value
        for t in range(len(episode.turns))
    ]
    assert ours == pytest.approx(expected)
    faulty = with_a_copied_row(episode, 0.9)
    assert len(faulty) == len(ours) + 1 and faulty[: len(ours)] != pytest.approx(expected)


def test_one_element_has_no_standard_deviation_and_is_no_nan():
    """Faulty: a sample standard deviation of one element."""

    def sample_std(x):
        return (x - x.mean()) / (x.std(ddof=1) + 1e-6)

    one = CreditBatch(
        rewards=[3.0], values=[1.0], trajectory=[0], final_values=[0.0], groups=[0], token_values=[1.0], anchors=[0]
    )
    for name in ("step_gae", "token_gae", "grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline", "gigpo"):
        assert advantages(name, one).tolist() == [0.0]
    with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning):
        assert math.isnan(sample_std(np.asarray([3.0]))[0])


def test_a_large_mean_costs_no_digits():
    """Faulty: variance in float32, in one pass."""

    def one_pass(x):
        x = x.astype(np.float32)
        variance = np.mean(x * x) - np.mean(x) ** 2
        return (x - np.mean(x)) / np.sqrt(np.maximum(variance, np.float32(1e-12)))

    small = np.random.default_rng(0).normal(size=400)
    x = small + 1e4
    expected = (small - small.mean()) / small.std()
    assert whiten(x) == pytest.approx(expected, abs=1e-9)
    assert np.abs(one_pass(x) - expected).max() > 0.1

    offset = CreditBatch(
        rewards=small + 1e4, values=np.zeros(400), trajectory=np.arange(400), final_values=np.zeros(400),
        groups=np.arange(400) // 8,
    )  # fmt: skip
    near = CreditBatch(
        rewards=small, values=np.zeros(400), trajectory=np.arange(400), final_values=np.zeros(400),
        groups=np.arange(400) // 8,
    )  # fmt: skip
    for name in ("grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline"):
        assert advantages(name, offset) == pytest.approx(advantages(name, near), abs=1e-7)


def test_long_trajectories_do_not_count_more_often_in_a_group():
    """Faulty: mean and deviation over the steps of the group."""

    def over_steps(batch):
        returns, groups = batch.returns[batch.trajectory], batch.groups[batch.trajectory]
        return np.asarray([r - returns[groups == g].mean() for r, g in zip(returns, groups, strict=True)])

    batch = CreditBatch(
        rewards=[1, 0, 0, 0, 0, 0],
        values=np.zeros(6),
        trajectory=[0, 1, 1, 1, 1, 1],
        final_values=[0, 0],
        groups=[0, 0],
    )
    expected = [0.5] + [-0.5] * 5
    assert advantages("grpo", batch, normalize_std=False) == pytest.approx(expected)
    assert advantages("rloo", batch) == pytest.approx(2 * np.asarray(expected))
    root = math.sqrt(0.5)
    assert advantages("grpo", batch) == pytest.approx([root] + [-root] * 5, rel=1e-5)
    assert advantages("reinforce_pp_baseline", batch) == pytest.approx([1] + [-1] * 5)
    batch = CreditBatch(**{**vars(batch), "anchors": np.arange(6)})
    assert advantages("gigpo", batch) == pytest.approx([root] + [-root] * 5)
    assert over_steps(batch) != pytest.approx(expected, abs=0.1)


def test_a_group_of_one_says_nothing():
    """Faulty: leave one out of one leaves a baseline of 0, so the raw return comes through."""

    def leave_one_out(returns):
        total, count = sum(returns), len(returns)
        return [r - (total - r) / max(count - 1, 1) for r in returns]

    batch = CreditBatch(
        rewards=[5.0, 1.0, 2.0], values=np.zeros(3), trajectory=[0, 1, 2], final_values=np.zeros(3), groups=[0, 1, 1]
    )
    assert leave_one_out([1.0, 2.0]) == advantages("rloo", batch)[1:].tolist() == [-1.0, 1.0]
    assert leave_one_out([5.0]) == [5.0]
    for name in ("rloo", "grpo"):
        assert advantages(name, batch)[0] == 0.0


def test_an_early_step_earns_what_came_later():
    """Faulty: the return of REINFORCE++ ends with the step's own reply."""

    def within_the_step(batch):
        return whiten(batch.rewards)

    batch = CreditBatch(
        rewards=[0, 0, 1, 0, 0], values=np.zeros(5), trajectory=[0, 0, 0, 1, 1], final_values=[0, 0], groups=[0, 0]
    )
    ours = advantages("reinforce_pp", batch, gamma=1.0)
    assert ours[:3].min() > 0 > ours[3:].max() and ours[0] == ours[2]
    assert within_the_step(batch)[0] == within_the_step(batch)[3]  # the way to success looks like the way to failure


def test_every_step_gets_its_own_trajectorys_number():
    """Faulty: numbers of trajectories are spread over their steps with lengths in another order."""

    def with_other_lengths(batch):
        per_trajectory = advantages("grpo")[np.cumsum(batch.lengths) - batch.lengths]
        return np.repeat(per_trajectory, np.sort(batch.lengths))

    assert len(set(BATCH.lengths.tolist())) > 3
    expected = []
    for episode in EPISODES:
        group = [other.total for other in EPISODES if other.group == episode.group]
        expected += [episode.total - sum(group) / len(group)] * len(episode.turns)
    assert advantages("grpo", normalize_std=False) == pytest.approx(expected)
    faulty = with_other_lengths(BATCH)
    assert faulty.size == BATCH.rewards.size
    assert np.sign(np.round(faulty, 9)).tolist() != np.sign(np.round(expected, 9)).tolist()
