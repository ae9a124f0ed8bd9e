"""What an estimator reads: tokens, anchors, and a part of the trajectories."""

import numpy as np
import pytest

from agent_r1_trainer.credit import CreditBatch, anchor_numbers, group_statistics
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.credit import batch_of, random_episodes, to_batch

FIELDS = (
    "rewards", "values", "trajectory", "final_values", "groups", "response_lengths", "token_values", "anchors"
)  # fmt: skip


def make(lengths, anchors=None):
    anchors = anchors or [""] * len(lengths)
    steps = [Step([1], [2] * length, anchor=anchor) for length, anchor in zip(lengths, anchors, strict=True)]
    return Trajectory("a", steps, StopReason.TERMINATED)


def test_tokens_and_anchors_are_numbered():
    batch = batch_of([make([2, 0], ["x", "y"]), make([3], ["x"])], token_values=np.arange(5))
    assert batch.response_lengths.tolist() == [2, 0, 3] and batch.num_tokens == 5
    assert batch.token_step.tolist() == [0, 0, 2, 2, 2]
    assert batch.anchors is not None and batch.anchors[0] == batch.anchors[2] != batch.anchors[1]
    assert batch.token_values is not None and batch.token_values.dtype == np.float64
    assert batch_of([make([1])]).anchors is None
    assert batch_of([make([1])]).token_values is None


def test_returns_of_trajectories():
    batch = CreditBatch(
        rewards=[1, 2, 4], values=np.zeros(3), trajectory=[0, 0, 2], final_values=np.zeros(3), groups=np.zeros(3)
    )
    assert batch.returns.tolist() == [3.0, 0.0, 4.0]
    assert batch.response_lengths.tolist() == [1, 1, 1]


def test_an_unknown_state_is_like_no_other():
    numbers = anchor_numbers(["", "b", "", "a", "b"])
    assert numbers.dtype == np.int64
    assert len(set(numbers.tolist())) == 4 and numbers[1] == numbers[4]
    assert anchor_numbers([]).size == 0
    assert len(set(anchor_numbers(["a", "a\0", "\0", ""]).tolist())) == 4  # an array of strings drops such endings


@pytest.mark.parametrize("seed", range(5))
def test_select_is_the_batch_of_those_trajectories(seed):
    episodes = random_episodes(seed, 12)
    mask = np.random.default_rng(seed).random(12) < 0.5
    part = to_batch(episodes).select(mask)
    alone = to_batch([episode for episode, keep in zip(episodes, mask, strict=True) if keep])
    for name in FIELDS:
        assert np.array_equal(getattr(part, name), getattr(alone, name)), name


def test_select_all_and_none():
    batch = to_batch(random_episodes(0, 5))
    assert np.array_equal(batch.select([True] * 5).rewards, batch.rewards)
    assert batch.select([False] * 5).rewards.size == 0
    assert batch_of([]).select([]).rewards.size == 0
    bare = batch_of([make([1]), make([2])]).select([False, True])
    assert bare.anchors is None and bare.token_values is None and bare.response_lengths.tolist() == [2]


@pytest.mark.parametrize("mask", [[True], [0, 1, 1], [[True, True, True]]])
def test_select_takes_a_mask_only(mask):
    with pytest.raises(ValueError, match=r"the mask must be \[3\] bool"):
        to_batch(random_episodes(0, 3)).select(mask)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"response_lengths": [1]}, "response_lengths must have one entry a step"),
        ({"response_lengths": [1, -1]}, "none below 0"),
        ({"token_values": [1.0]}, "1 values, but response_lengths add up to 2"),
        ({"anchors": [1]}, "anchors must have one entry a step"),
    ],
)
def test_bad_shapes(change, message):
    good = {"rewards": [0, 0], "values": [0, 0], "trajectory": [0, 1], "final_values": [0, 0], "groups": [0, 0]}
    CreditBatch(**good)
    with pytest.raises(ValueError, match=message):
        CreditBatch(**{**good, **change})


def test_group_statistics_by_definition():
    rng = np.random.default_rng(0)
    values, groups = rng.normal(size=40), rng.integers(-5, 5, 40)
    found = group_statistics(values, groups)
    for i, group in enumerate(groups):
        mine = values[groups == group]
        assert found.count[i] == mine.size and found.mean[i] == pytest.approx(mine.mean())
        assert found.deviation[i] == pytest.approx(values[i] - mine.mean())
        assert found.std[i] == pytest.approx(mine.std(ddof=1) if mine.size > 1 else 0.0)


def test_equal_values_deviate_by_exactly_nothing():
    found = group_statistics(np.full(7, 0.1), np.zeros(7, dtype=np.int64))
    assert found.deviation.tolist() == found.std.tolist() == found.standardised.tolist() == [0.0] * 7


def test_rounding_is_not_standardised():
    found = group_statistics(np.asarray([0.1 + 0.2, 0.3]), np.asarray([0, 0]))
    assert found.std[0] > 0.0 and found.standardised.tolist() == [0.0, 0.0]
