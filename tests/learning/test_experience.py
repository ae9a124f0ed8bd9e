"""The plan of a rollout's updates: the same for any number of ranks, with global denominators."""

from __future__ import annotations

import random
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_r1_trainer.learning.assignment import explained_variance
from agent_r1_trainer.learning.experience import BatchFacts, add_fillers, plan_updates
from agent_r1_trainer.losses import Aggregation
from agent_r1_trainer.metrics import MetricStore, episode_metrics, summarize
from agent_r1_trainer.packing import Layout, merge_units
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory


def trajectories(count: int, seed: int) -> list[Trajectory]:
    rng = random.Random(seed)
    made = []
    for number in range(count):
        steps, prompt = [], [3, 4]
        for turn in range(rng.randint(1, 6)):
            if rng.random() < 0.3:
                prompt = [5, 6, turn]  # the context was rewritten: a new chain
            response = [rng.randrange(3, 9) for _ in range(rng.randint(1, 4))]
            steps.append(Step(list(prompt), response, reward=rng.random(), turn=turn))
            prompt = prompt + response + [7]
        made.append(Trajectory(f"t{number}", steps, StopReason.TERMINATED, group=number))
    return made


def facts(batch: list[Trajectory], units) -> list[BatchFacts]:
    return [
        BatchFacts(
            rewards=t.rewards, lengths=[len(s.response_ids) for s in t.steps],
            units=[u.num_steps for u in units if u.trajectory == i], group=t.group, bootstrapped=False,
        )
        for i, t in enumerate(batch)
    ]  # fmt: skip


def plan(shares: list[list[Trajectory]], rank: int, **kwargs):
    local = shares[rank]
    known = [facts(share, merge_units(share)) for share in shares]
    return plan_updates(
        local, merge_units(local), Layout(local), [f for share in known for f in share],
        first=sum(map(len, shares[:rank])), seed=(0, 3), token_budget=64, pad_id=0, loss_divisors={"": 24.0}, **kwargs,
    )  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 12), st.integers(0, 99), st.integers(1, 3), st.integers(1, 4),
    st.sampled_from(get_args(Aggregation)),
)  # fmt: skip
def test_the_plan_is_the_same_for_any_number_of_ranks(count, seed, epochs, minibatches, aggregation):
    batch = trajectories(count, seed)
    kwargs = {"epochs": epochs, "minibatches": minibatches, "aggregation": aggregation}
    alone = plan([batch], 0, **kwargs)
    assert len(alone) == epochs * minibatches
    cuts = [batch[: count // 3], batch[count // 3 : count // 2], batch[count // 2 :]]
    shared = [plan(cuts, rank, **kwargs) for rank in range(3)]
    for index, update in enumerate(alone):
        parts = [ranks[index] for ranks in shared]
        assert {part.num_steps for part in parts} == {update.num_steps}
        for name in ("policy_weights", "value_weights"):
            together = torch.cat([getattr(part, name) for part in parts])
            assert torch.equal(together, getattr(update, name))
        assert sum(b.num_steps for part in parts for b in part.batches) == update.num_steps
    for epoch in range(epochs):
        own = alone[epoch * minibatches : (epoch + 1) * minibatches]
        covered = sorted(step for update in own for b in update.batches for step in b.step_index.tolist())
        assert covered == list(range(sum(map(len, batch))))
        seen = torch.stack([update.value_weights > 0 for update in own]).sum(0)
        assert bool((seen == 1).all())
        assert all(float(u.value_weights.sum()) == pytest.approx(float(u.num_steps > 0), abs=1e-5) for u in own)


def test_fillers_make_the_ranks_equal_and_weigh_nothing():
    updates = plan([trajectories(2, 0)], 0, epochs=1, minibatches=4, aggregation="step_mean")
    before = [len(update.batches) for update in updates]
    assert 0 in before or len(before) == 4
    add_fillers(updates, [3, 3, 0, 3], pad_id=0)
    assert [len(update.batches) for update in updates] == [
        max(3, n) if i != 2 else max(1, n) for i, n in enumerate(before)
    ]
    fillers = [batch for update in updates for batch in update.batches if not batch.real]
    assert fillers and all(batch.read_steps(updates[0].policy_weights).sum() == 0 for batch in fillers)


def test_metrics_of_episodes_leave_the_masked_ones_out():
    good = Trajectory("a", [Step([3], [4, 1], 1.0, terminated=True)], StopReason.TERMINATED, success=True, score=1.0)
    cut = Step([3], [4, 4], finish="length", invalid=True, truncated=True)
    stalled = Trajectory("b", [Step([3], [4]), cut], StopReason.TURN_LIMIT, reward_info={"f1": 0.5})
    failed = Trajectory("c", [Step([3], [4], 9.0)], StopReason.FAILED, masked=True)
    metrics = episode_metrics([summarize(t) for t in (good, stalled, failed)])
    assert metrics["reward"] == metrics["success"] == 0.5 and metrics["turns/mean"] == 1.5
    assert metrics["stalled_ratio"] == 0.5 and metrics["masked_ratio"] == pytest.approx(1 / 3)
    assert metrics["invalid_ratio"] == metrics["completions/clipped_ratio"] == pytest.approx(1 / 3)
    assert metrics["stop/failed"] == pytest.approx(1 / 3) and metrics["reward_info/f1"] == 0.5
    assert np.isnan(episode_metrics([summarize(failed)])["reward"])


def test_the_store_averages_what_was_measured_and_survives_a_checkpoint():
    store = MetricStore()
    store.add({"a": 1.0, "b": float("nan")})
    store.add({"a": 2.0, "b": float("nan"), "c": 5.0, "num_tokens": 10.0})
    store.add({"num_tokens": 30.0})
    twin = MetricStore()
    twin.load_state_dict(store.state_dict())
    assert store.flush() == twin.flush() == {"a": 1.5, "c": 5.0, "num_tokens": 30.0}
    assert store.flush() == {}


def test_explained_variance():
    returns = np.array([1.0, 2.0, 3.0])
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(np.full(3, 2.0), returns) == pytest.approx(0.0)
    assert np.isnan(explained_variance(returns, np.ones(3)))
