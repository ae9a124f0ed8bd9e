"""Every estimator against plain loops over its definition, on random ragged batches with groups."""

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_r1_trainer.credit import CreditBatch, discounted_sums, get, names, step_advantages
from tests.helpers.credit import Episode, batch_of, random_episodes, to_batch

Loop = Callable[..., list[float]]


def mean_of(numbers):
    return math.fsum(numbers) / len(numbers)


def std_of(numbers, ddof):
    mean = mean_of(numbers)
    return math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / (len(numbers) - ddof))


def whitened(numbers):
    if not numbers:
        return []
    mean, std = mean_of(numbers), std_of(numbers, 0)
    return [0.0 if std < 1e-6 * max(1.0, abs(mean)) else (x - mean) / std for x in numbers]


def spread(episodes: list[Episode], numbers) -> list[float]:
    """A number a trajectory to its steps."""
    return [number for episode, number in zip(episodes, numbers, strict=True) for _ in episode.turns]


def same_task(episodes, episode):
    return [other.total for other in episodes if other.group == episode.group]


def to_go(episode, t, gamma):
    return math.fsum(gamma**k * turn.reward for k, turn in enumerate(episode.turns[t:]))


def plain_gae(rewards, values, final, gamma, lam):
    following = [*values[1:], final]
    deltas = [r + gamma * n - v for r, n, v in zip(rewards, following, values, strict=True)]
    return [math.fsum((gamma * lam) ** k * delta for k, delta in enumerate(deltas[t:])) for t in range(len(deltas))]


def loop_step_gae(episodes, gamma, lam):
    advantages = []
    for episode in episodes:
        turns = episode.turns
        advantages += plain_gae([t.reward for t in turns], [t.value for t in turns], episode.final, gamma, lam)
    return whitened(advantages)


def loop_token_gae(episodes, gamma, lam):
    advantages = []
    for episode in episodes:
        rewards, values = [], []
        for turn in episode.turns:
            values += turn.token_values
            rewards += [0.0] * len(turn.token_values)
            if rewards:  # else nobody earns it
                rewards[-1] += turn.reward
        if values:
            advantages += plain_gae(rewards, values, episode.final, gamma, lam)
    return whitened(advantages)


def loop_grpo(episodes, gamma, lam, normalize_std=True):
    numbers = []
    for episode in episodes:
        group = same_task(episodes, episode)
        std = std_of(group, 1) if len(group) > 1 else 0.0
        numbers.append((episode.total - mean_of(group)) / (std + 1e-6 if normalize_std else 1.0))
    return spread(episodes, numbers)


def loop_rloo(episodes, gamma, lam):
    numbers = []
    for i, episode in enumerate(episodes):
        others = [other.total for j, other in enumerate(episodes) if other.group == episode.group and j != i]
        numbers.append(episode.total - mean_of(others) if others else 0.0)
    return spread(episodes, numbers)


def loop_reinforce_pp(episodes, gamma, lam):
    return whitened([to_go(episode, t, gamma) for episode in episodes for t in range(len(episode.turns))])


def loop_reinforce_pp_baseline(episodes, gamma, lam):
    return spread(episodes, whitened([episode.total - mean_of(same_task(episodes, episode)) for episode in episodes]))


def loop_gigpo(episodes, gamma, lam, step_weight=1.0, normalize_std=True):
    def relative(number, group):
        mean = mean_of(group)
        if len(group) == 1:
            return 0.0
        std = std_of(group, 1) if normalize_std else 1.0
        return 0.0 if std < 1e-6 * max(1.0, abs(mean)) else (number - mean) / std

    advantages = []
    for episode in episodes:
        whole = relative(episode.total, same_task(episodes, episode))
        for t, turn in enumerate(episode.turns):
            saw_it = [
                to_go(other, u, gamma)
                for other in episodes
                if other.group == episode.group
                for u, visit in enumerate(other.turns)
                if visit.anchor == turn.anchor
            ]
            advantages.append(whole + step_weight * relative(to_go(episode, t, gamma), saw_it))
    return advantages


LOOPS: dict[str, tuple[Loop, list[dict]]] = {
    "step_gae": (loop_step_gae, [{}]),
    "token_gae": (loop_token_gae, [{}]),
    "grpo": (loop_grpo, [{}, {"normalize_std": False}]),
    "rloo": (loop_rloo, [{}]),
    "reinforce_pp": (loop_reinforce_pp, [{}]),
    "reinforce_pp_baseline": (loop_reinforce_pp_baseline, [{}]),
    "gigpo": (loop_gigpo, [{}, {"normalize_std": False}, {"step_weight": 0.5}, {"step_weight": 0}]),
}
CASES = [(name, options) for name, (_, each) in LOOPS.items() for options in each]


def compare(name, options, episodes, gamma, lam):
    batch = to_batch(episodes)
    estimator = get(name)
    credit = estimator(batch, gamma=gamma, lam=lam, **options)
    assert credit.advantages.dtype == np.float64
    assert credit.advantages == pytest.approx(LOOPS[name][0](episodes, gamma, lam, **options), rel=1e-9, abs=1e-9)
    assert (credit.returns is None) is not estimator.needs_values
    if credit.returns is not None:
        values = batch.values if estimator.level == "step" else batch.token_values
        assert whitened((credit.returns - values).tolist()) == pytest.approx(credit.advantages, rel=1e-9, abs=1e-9)


def test_there_is_a_loop_for_every_estimator():
    assert set(LOOPS) <= set(names())
    assert {name for name in names() if get(name).function.__module__.startswith("agent_r1_trainer.")} == set(LOOPS)


@pytest.mark.parametrize(("name", "options"), CASES)
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 25), st.sampled_from([(1.0, 1.0), (0.95, 0.9), (0.5, 0.0), (0.0, 1.0)]))
def test_against_the_definition(name, options, seed, count, rates):
    compare(name, options, random_episodes(seed, count), *rates)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_what_does_not_vary_gives_zeros(name, options):
    episodes = random_episodes(3, 12, equal=True)
    compare(name, options, episodes, 1.0, 1.0)
    if not get(name).needs_values:
        assert get(name)(to_batch(episodes), gamma=1.0, lam=1.0, **options).advantages.tolist() == [0.0] * 12


@pytest.mark.parametrize(("name", "options"), CASES)
def test_one_trajectory_and_none(name, options):
    compare(name, options, random_episodes(5, 1), 0.9, 0.8)
    empty = batch_of([])
    if get(name).needs_anchors:
        empty = to_batch([])
    credit = get(name)(empty, gamma=0.9, lam=0.8, **options)
    assert credit.advantages.size == 0 and (credit.returns is None or credit.returns.size == 0)


@pytest.mark.parametrize("name", ["grpo", "rloo", "reinforce_pp_baseline", "gigpo"])
def test_samples_of_a_task_need_not_be_neighbours(name):
    episodes = random_episodes(8, 20)
    ordered = sorted(range(20), key=lambda i: episodes[i].group)
    mixed = get(name)(to_batch(episodes), gamma=0.9, lam=1.0).advantages
    sorted_ = get(name)(to_batch([episodes[i] for i in ordered]), gamma=0.9, lam=1.0).advantages
    pieces = np.split(mixed, np.cumsum([len(episode.turns) for episode in episodes])[:-1])
    assert sorted_ == pytest.approx(np.concatenate([pieces[i] for i in ordered]))


def test_what_is_not_finite_stays_in_its_trajectory():
    batch, spoiled = (to_batch(random_episodes(2, 6)) for _ in range(2))
    spoiled.rewards[spoiled.trajectory == 2] = np.inf
    others = batch.trajectory != 2
    for compute in (
        lambda b: discounted_sums(b.rewards, b.trajectory, 0.9),
        lambda b: step_advantages(b, gamma=0.9, lam=0.9),
    ):
        assert np.array_equal(compute(batch)[others], compute(spoiled)[others])


def test_token_values_are_needed():
    batch = CreditBatch(rewards=[1.0], values=[0.0], trajectory=[0], final_values=[0.0], groups=[0])
    with pytest.raises(ValueError, match="set token_values"):
        get("token_gae")(batch, gamma=1.0, lam=1.0)


def test_a_reward_without_a_token_goes_to_the_token_before():
    silent = CreditBatch(
        rewards=[1.0, 2.0, 4.0, 8.0],
        values=np.zeros(4),
        trajectory=[0, 1, 1, 1],
        final_values=[0.0, 0.0],
        groups=[0, 0],
        response_lengths=[1, 0, 2, 0],
        token_values=np.zeros(3),
    )
    # The 2 comes before the first token of its trajectory and must not reach the trajectory before.
    assert get("token_gae")(silent, gamma=0.0, lam=0.0).returns.tolist() == [1.0, 0.0, 12.0]
    assert get("token_gae")(silent, gamma=0.5, lam=1.0).returns.tolist() == [1.0, 6.0, 12.0]


def test_a_token_value_of_the_next_reply_follows_that_of_the_last_token():
    batch = CreditBatch(
        rewards=[0.0, 0.0], values=[5.0, 7.0], trajectory=[0, 0], final_values=[9.0], groups=[0],
        response_lengths=[2, 1], token_values=[5.0, 6.0, 7.0],
    )  # fmt: skip
    assert get("token_gae")(batch, gamma=1.0, lam=0.0).returns.tolist() == [6.0, 7.0, 9.0]


def test_with_one_token_a_step_tokens_are_steps():
    episodes = random_episodes(4, 10)
    for episode in episodes:
        for turn in episode.turns:
            turn.token_values = [turn.value]
    batch = to_batch(episodes)
    step, token = (get(name)(batch, gamma=0.9, lam=0.8) for name in ("step_gae", "token_gae"))
    assert np.array_equal(step.advantages, token.advantages) and np.array_equal(step.returns, token.returns)


def test_an_anchor_means_nothing_to_another_group():
    batch = CreditBatch(
        rewards=[1.0, 3.0], values=[0.0, 0.0], trajectory=[0, 1], final_values=[0.0, 0.0], groups=[0, 1], anchors=[5, 5]
    )
    assert get("gigpo")(batch, gamma=0.9, lam=1.0).advantages.tolist() == [0.0, 0.0]


def test_two_visits_by_one_trajectory_count_twice():
    batch = CreditBatch(
        rewards=[0.0, 2.0, 2.0], values=np.zeros(3), trajectory=[0, 0, 1], final_values=np.zeros(2), groups=[0, 0],
        anchors=[5, 5, 5],
    )  # fmt: skip
    # G = 1, 2, 2 in one state, mean 5/3; both returns are 2.
    advantages = get("gigpo")(batch, gamma=0.5, lam=1.0, normalize_std=False).advantages
    assert advantages == pytest.approx([-2 / 3, 1 / 3, 1 / 3])


def test_gigpo_says_what_it_misses():
    batch = CreditBatch(rewards=[1.0], values=[0.0], trajectory=[0], final_values=[0.0], groups=[0])
    with pytest.raises(ValueError, match="set anchors"):
        get("gigpo")(batch, gamma=1.0, lam=1.0)
    with pytest.raises(ValueError, match="step_weight of gigpo must not be negative"):
        get("gigpo").check({"step_weight": -1.0})


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_a_large_batch_is_cheap(name):
    count, turns, tokens = 10_000, 20, 5
    rng = np.random.default_rng(0)
    steps = count * turns
    batch = CreditBatch(
        rewards=rng.normal(size=steps),
        values=rng.normal(size=steps),
        trajectory=np.repeat(np.arange(count), turns),
        final_values=np.zeros(count),
        groups=np.arange(count) // 8,
        response_lengths=np.full(steps, tokens),
        token_values=rng.normal(size=steps * tokens),
        anchors=rng.integers(0, 30, steps),
    )
    begin = time.process_time()
    get(name)(batch, gamma=0.95, lam=0.9)
    assert time.process_time() - begin < 1.0  # a loop over the steps in Python takes longer
