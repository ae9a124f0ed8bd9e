"""Step GAE against plain loops over random ragged trajectories."""

import math
import random

import numpy as np
import pytest

from agent_r1_trainer.credit import CreditBatch, final_values, get, step_advantages, value_queries, whiten
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.credit import batch_of


def random_trajectories(seed, count=30):
    """1 to 40 steps; some terminated, some cut by a turn limit, some by a foreign one with a next prompt."""
    rng = random.Random(seed)
    trajectories = []
    for index in range(count):
        stop = rng.choice([StopReason.TERMINATED, StopReason.TURN_LIMIT, StopReason.FOREIGN_LIMIT])
        steps = [
            Step(prompt_ids=[1], response_ids=[2], reward=rng.choice([0.0, 0.0, -0.1, 1.0, rng.gauss(0, 3)]), turn=t)
            for t in range(rng.choice([1, 2, 3, 5, 40, rng.randint(1, 40)]))
        ]
        steps[-1].terminated = stop is StopReason.TERMINATED
        steps[-1].truncated = not steps[-1].terminated
        final = None if stop is StopReason.TERMINATED else [3, 4]
        trajectories.append(Trajectory(str(index), steps, stop, group=index // 2, final_prompt_ids=final))
    return trajectories, rng


def reference(rewards, values, final, gamma, lam):
    """The definition: A_t = sum_l (gamma lam)^l delta_{t+l}, term by term."""
    following = values[1:] + [final]
    deltas = [r + gamma * n - v for r, n, v in zip(rewards, following, values, strict=True)]
    count = len(deltas)
    return [math.fsum((gamma * lam) ** k * deltas[t + k] for k in range(count - t)) for t in range(count)]


@pytest.mark.parametrize("mode", ["auto", "none", "value"])
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.99, 0.95), (0.9, 0.0), (0.0, 0.5)])
def test_against_the_definition(gamma, lam, mode):
    for seed in range(4):
        trajectories, rng = random_trajectories(seed)
        values = [[rng.gauss(0, 2) for _ in trajectory.steps] for trajectory in trajectories]
        last = [rng.gauss(0, 2) for _ in trajectories]
        which, queries = value_queries(trajectories, mode)
        assert [query.steps[0].prompt_ids for query in queries] == [[3, 4]] * len(which)
        batch = batch_of(
            trajectories,
            values=[value for row in values for value in row],
            final_values=final_values(len(trajectories), which, [last[i] for i in which]),
        )
        expected = []
        for trajectory, row, value in zip(trajectories, values, last, strict=True):
            at_end = {
                "auto": value if trajectory.stop is StopReason.FOREIGN_LIMIT else 0.0,
                "none": 0.0,
                "value": 0.0 if trajectory.stop is StopReason.TERMINATED else value,
            }[mode]
            expected += reference([step.reward for step in trajectory.steps], row, at_end, gamma, lam)
        assert step_advantages(batch, gamma=gamma, lam=lam) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        credit = get("step_gae")(batch, gamma=gamma, lam=lam)
        assert credit.returns == pytest.approx(np.add(expected, [v for row in values for v in row]), rel=1e-12)
        assert credit.advantages == pytest.approx(loop_whiten(expected), rel=1e-9, abs=1e-12)


def loop_whiten(numbers):
    mean = math.fsum(numbers) / len(numbers)
    std = math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / len(numbers))
    return [(x - mean) / std for x in numbers]


def test_lambda_one_gives_the_discounted_return():
    trajectories, rng = random_trajectories(9)
    values = [rng.gauss(0, 1) for trajectory in trajectories for _ in trajectory.steps]
    batch = batch_of(trajectories, values=values)
    returns = []
    for trajectory in trajectories:
        rewards = [step.reward for step in trajectory.steps]
        returns += [sum(0.9**k * r for k, r in enumerate(rewards[t:])) for t in range(len(rewards))]
    assert get("step_gae")(batch, gamma=0.9, lam=1.0).returns == pytest.approx(returns)


def test_trajectories_do_not_leak_into_each_other():
    trajectories, rng = random_trajectories(3)
    values = [[rng.gauss(0, 1) for _ in trajectory.steps] for trajectory in trajectories]
    together = step_advantages(batch_of(trajectories, values=sum(values, [])), gamma=0.9, lam=0.9)
    alone = [
        step_advantages(batch_of([trajectory], values=row), gamma=0.9, lam=0.9)
        for trajectory, row in zip(trajectories, values, strict=True)
    ]
    assert np.array_equal(together, np.concatenate(alone))


def test_empty_batch():
    batch = batch_of([])
    credit = get("step_gae")(batch, gamma=1.0, lam=1.0)
    assert credit.advantages.size == credit.returns.size == 0


def test_a_trajectory_without_steps_is_no_problem():
    batch = CreditBatch(rewards=[1.0], values=[0.0], trajectory=[1], final_values=[5.0, 0.0], groups=[0, 0])
    assert batch.lengths.tolist() == [0, 1]
    assert step_advantages(batch, gamma=1.0, lam=1.0).tolist() == [1.0]


def test_batch_positions():
    batch = CreditBatch(
        rewards=np.zeros(6),
        values=np.zeros(6),
        trajectory=[0, 0, 0, 1, 2, 2],
        final_values=np.zeros(3),
        groups=[0, 0, 1],
    )
    assert batch.lengths.tolist() == [3, 1, 2]
    assert batch.time.tolist() == [0, 1, 2, 0, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.zeros(2)}, "one entry a step"),
        ({"trajectory": [0, 1, 0]}, "ascend"),
        ({"trajectory": [0, 1, 2]}, "ascend within 0..1"),
        ({"groups": [0]}, "2 trajectories"),
    ],
)
def test_bad_shapes(change, message):
    good = {
        "rewards": np.zeros(3),
        "values": np.zeros(3),
        "trajectory": [0, 0, 1],
        "final_values": np.zeros(2),
        "groups": [0, 0],
    }
    CreditBatch(**good)
    with pytest.raises(ValueError, match=message):
        CreditBatch(**{**good, **change})


class TestWhiten:
    def test_moments(self):
        x = np.random.default_rng(0).normal(1e6, 10.0, 1000)
        y = whiten(x)
        assert abs(y.mean()) < 1e-9 and y.std() == pytest.approx(1.0)

    def test_float32_input_is_whitened_in_float64(self):
        assert whiten(np.asarray([1.0, 2.0], np.float32)).dtype == np.float64

    @pytest.mark.parametrize("x", [[3.0], [0.1] * 7, [1e6, 1e6 + 0.5], [0.0, 1e-7]])
    def test_what_does_not_vary_gives_zeros(self, x):
        assert whiten(np.asarray(x)).tolist() == [0.0] * len(x)

    def test_what_varies_little_is_kept_above_the_threshold(self):
        assert whiten(np.asarray([1e6, 1e6 + 4.0])).tolist() == [-1.0, 1.0]

    def test_empty(self):
        assert whiten(np.asarray([])).size == 0
