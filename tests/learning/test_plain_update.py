"""One update of the trainer against the same computed plainly: a loop over steps, each a forward pass of its own."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, get_args

import pytest
import torch

from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.losses import Aggregation
from agent_r1_trainer.trajectory import StopReason, Trajectory
from tests.helpers.training import CueEnv
from tests.helpers.updates import flat, make_trajectories, one_update, policy_of, reference_of

GAMMA, LAM, CLIP, BONUS, VALUE, BETA = 0.9, 0.8, 0.2, 0.02, 0.5, 0.1


def moments_of(numbers: list[float]) -> tuple[float, float]:
    mean = math.fsum(numbers) / len(numbers)
    return mean, math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / len(numbers))


def whitened(numbers: list[float], floor: float) -> list[float]:
    mean, std = moments_of(numbers)
    return [(x - mean) / max(std, floor) for x in numbers]


def gae(rewards: list[float], values: list[float], lam: float = LAM) -> list[float]:
    advantages, next_value, next_advantage = [], 0.0, 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        next_advantage = reward + GAMMA * next_value - value + GAMMA * lam * next_advantage
        next_value = value
        advantages.append(next_advantage)
    return advantages[::-1]


def token_rewards(trajectory: Trajectory, earned: list[float]) -> list[float]:
    """Each step's reward at its last token, that of an empty step at the token before it."""
    rewards: list[float] = []
    for step, reward in zip(trajectory.steps, earned, strict=True):
        rewards.extend([0.0] * len(step.response_ids))
        if rewards:
            rewards[-1] += reward
    return rewards


def grpo(trajectories: list[Trajectory], earned: list[list[float]]) -> list[float]:
    totals = list(map(sum, earned))
    result = []
    for trajectory, total in zip(trajectories, totals, strict=True):
        group = [x for x, other in zip(totals, trajectories, strict=True) if other.group == trajectory.group]
        mean = sum(group) / len(group)
        result.append((total - mean) / (math.sqrt(sum((x - mean) ** 2 for x in group) / (len(group) - 1)) + 1e-6))
    return result


def read(trajectories: list[Trajectory], name: str) -> tuple[list[Any], list[list[torch.Tensor]]]:
    """Log-probabilities, those of the reference and entropies of each step; what the value head reads of each."""
    model = policy_of(0 if name == "grpo" else len({trajectory.env for trajectory in trajectories}))
    replies, decisions = [], []
    for trajectory in trajectories:
        decisions.append([])
        for step in trajectory.steps:
            ids = torch.tensor([step.prompt_ids + step.response_ids])
            hidden = model.model(input_ids=ids).last_hidden_state[0]
            places = hidden[len(step.prompt_ids) - 1 :][: max(len(step.response_ids), 1)]
            logps = model.lm_head(places[: len(step.response_ids)]).log_softmax(-1)
            chosen = logps.gather(-1, torch.tensor(step.response_ids, dtype=torch.int64)[:, None]).squeeze(-1)
            with torch.no_grad():
                logits = reference_of()(input_ids=ids).logits[0, len(step.prompt_ids) - 1 : -1]
            held = logits.log_softmax(-1)[torch.arange(len(step.response_ids)), step.response_ids]
            replies.append((chosen, held, -(logps.exp() * logps).sum(-1)))
            decisions[-1].append(places[: len(step.response_ids)] if name == "token_gae" else places[:1])
    return replies, decisions


def plain(
    trajectories: list[Trajectory],
    name: str,
    level: str,
    aggregation: str,
    *,
    seen=None,
    silence=False,
    overlong=False,
    factors=None,
    divisors=None,
    correction="none",
    kl="",
):
    """Loss and gradients, with the noise on the old log-probabilities that `one_update` adds."""
    names = list(dict.fromkeys(trajectory.env for trajectory in trajectories))
    model = policy_of(len(names) if name != "grpo" else 0)
    model.zero_grad()
    replies, decisions = seen or read(trajectories, name)
    values = []
    for trajectory, places in zip(trajectories, decisions, strict=True):
        if name != "grpo":
            head, row = model.value_head.linear, names.index(trajectory.env)
            values.append(torch.cat([place @ head.weight[row] + head.bias[row] for place in places]))
        else:
            values.append(torch.zeros(0))
    earned = [trajectory.rewards for trajectory in trajectories]
    if kl == "k1":
        penalties = iter(replies)
        for rewards, trajectory in zip(earned, trajectories, strict=True):
            for step in trajectory.steps:
                chosen, held, _ = next(penalties)
                rewards[step.turn] -= BETA * float((chosen - held).detach().sum())

    steps = [(trajectory, step) for trajectory in trajectories for step in trajectory.steps]
    if name == "grpo":
        per_token = [a for t, a in zip(trajectories, grpo(trajectories, earned), strict=True)
                     for s in t.steps for _ in s.response_ids]  # fmt: skip
        value_loss = torch.zeros(())
    else:
        rewards = [token_rewards(t, e) if name == "token_gae" else e for t, e in zip(trajectories, earned, strict=True)]
        # A head predicts (V - m)/s with the moments of the discounted returns of its environment.
        moments = {env: moments_of([g for t, r in zip(trajectories, rewards, strict=True) if t.env == env
                                    for g in gae(r, [0.0] * len(r), lam=1.0)]) for env in names}  # fmt: skip
        fits = {}  # values are believed as far as the discounted returns of the batch follow them
        for env in names:
            mine = [(r, v) for t, r, v in zip(trajectories, rewards, values, strict=True) if t.env == env]
            xs = [moments[env][0] + moments[env][1] * n for _, v in mine for n in v.tolist()]
            ys = [g for r, _ in mine for g in gae(r, [0.0] * len(r), lam=1.0)]
            (mean_x, std_x), (mean_y, _) = moments_of(xs), moments_of(ys)
            together = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / len(xs)
            slope = min(max(together / std_x**2, 0.0), 1.0) if std_x else 1.0
            fits[env] = mean_y - slope * mean_x, slope
        small, returns = [], []
        for trajectory, reward, value in zip(trajectories, rewards, values, strict=True):
            m, s = moments[trajectory.env]
            offset, slope = fits[trajectory.env]
            believed = [offset + slope * (m + s * n) for n in value.tolist()]
            each = gae(reward, believed)
            small += [a / s for a in each]
            returns += [(a + v - m) / s for a, v in zip(each, believed, strict=True)]
        advantages, returns = whitened(small, floor=1.0), torch.tensor(returns)
        weight = torch.tensor(
            [(factors or {}).get(t.env, 1.0) for t, v in zip(trajectories, values, strict=True) for _ in v]
        )
        value_loss = (0.5 * weight * (torch.cat(values) - returns) ** 2).sum() / len(returns)
        lengths = [1 if name == "token_gae" else len(s.response_ids) for _, s in steps]
        per_token = advantages if name == "token_gae" else [
            a for a, n in zip(advantages, lengths, strict=True) for _ in range(n)]  # fmt: skip

    counted = [
        bool(s.response_ids)
        and not (silence and s.finish == "length")
        and not (overlong and t.stop is StopReason.PROMPT_TOO_LONG)
        for t, s in steps
    ]
    spans = {id(t): sum(c for (u, _), c in zip(steps, counted, strict=True) if u is t) for t in trajectories}
    lengths = {id(t): sum(c * len(s.response_ids) for (u, s), c in zip(steps, counted, strict=True) if u is t)
               for t in trajectories}  # fmt: skip
    episodes = sum(count > 0 for count in spans.values())
    tokens = sum(len(s.response_ids) for (_, s), c in zip(steps, counted, strict=True) if c)
    noise = 0.2 * torch.randn(sum(len(s.response_ids) for _, s in steps), generator=torch.Generator().manual_seed(1))
    policy_loss, at = torch.zeros(()), 0
    for (trajectory, step), (logps, held, entropies), count in zip(steps, replies, counted, strict=True):
        window = slice(at, at + len(step.response_ids))
        at = window.stop
        if not count:
            continue
        weight = {
            "step_mean": 1 / sum(counted),
            "token_mean": len(step.response_ids) / tokens,
            "token_sum": len(step.response_ids) / (len(trajectories) * (divisors or {}).get(trajectory.env, 56.0)),
            "trajectory_mean": len(step.response_ids) / (episodes * lengths[id(trajectory)]),
            "trajectory_step_mean": 1 / (episodes * spans[id(trajectory)]),
            "trajectory_step_sum": 1 / episodes,
        }[aggregation] * (factors or {}).get(trajectory.env, 1.0)
        old = logps.detach() + noise[window]
        z = logps - old
        if level == "sequence":
            z = z.mean().detach() + logps - logps.detach()
        advantage = torch.tensor(per_token[window])
        surrogate = -torch.minimum(z.exp() * advantage, z.exp().clamp(1 - CLIP, 1 + CLIP) * advantage)
        if correction != "none":
            known = step.logprobs if step.logprobs is not None else [math.nan] * len(step.response_ids)
            difference = (old - torch.tensor(known)).nan_to_num(0.0, 0.0, 0.0)
            difference = difference.sum() if correction == "sequence" else difference
            surrogate = surrogate * difference.exp().clamp(max=2.0)
        d = logps - held
        penalty = {"": 0.0 * d, "k1": 0.0 * d, "k2": d**2 / 2, "k3": (-d).exp() - 1 + d}[kl]
        policy_loss = policy_loss + weight * (surrogate + BETA * penalty - BONUS * entropies).mean()
    loss = policy_loss + VALUE * value_loss
    loss.backward(retain_graph=seen is not None)
    return loss.item(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def compare(
    trajectories: list[Trajectory],
    name: str,
    level: str,
    aggregation: str,
    *,
    seen: Any = None,
    plainly: Any = None,
    **settings,
):
    loss, gradients, experience, metrics = one_update(
        trajectories, advantage_estimator=name, importance_sampling_level=level, loss_aggregation=aggregation,
        gamma=GAMMA, lam=LAM, epsilon=CLIP, entropy_coef=BONUS, vf_coef=VALUE, **settings,
    )  # fmt: skip
    expected, reference = plain(trajectories, name, level, aggregation, seen=seen, **(plainly or {}))
    assert loss == pytest.approx(expected, rel=2e-5, abs=1e-6)
    assert flat(reference).norm() > 1e-3
    assert (flat(gradients) - flat(reference)).norm() < 2e-5 * flat(reference).norm()
    return experience, metrics


AGGREGATIONS = get_args(Aggregation)


@pytest.mark.parametrize("name", ["grpo", "step_gae", "token_gae"])
def test_an_update_is_the_one_computed_plainly(name):
    trajectories = make_trajectories(seed=2, groups=2)
    seen = read(trajectories, name)
    for level, aggregation in product(["token", "sequence"], AGGREGATIONS):
        compare(trajectories, name, level, aggregation, seen=seen)


@pytest.mark.parametrize("name", ["grpo", "step_gae", "token_gae"])
def test_replies_that_were_cut_leave_the_policy_term_and_its_denominators_only(name):
    trajectories = make_trajectories(seed=3, groups=2)
    cut = sum(step.finish == "length" for t in trajectories for step in t.steps)
    assert 3 < cut < sum(map(len, trajectories)) - 3
    settings = {"mask_truncated_completions": True, "plainly": {"silence": True}, "seen": read(trajectories, name)}
    for aggregation in AGGREGATIONS:
        compare(trajectories, name, "sequence", aggregation, **settings)


@pytest.mark.parametrize("name", ["grpo", "step_gae", "token_gae"])
def test_overlong_episodes_leave_the_policy_term_and_its_denominators_only(name):
    """They stay in the statistics of credit, their group's too, and in the value loss."""
    trajectories = make_trajectories(seed=10, groups=2)
    for trajectory in trajectories[1::3]:
        trajectory.stop, trajectory.steps[-1].terminated = StopReason.PROMPT_TOO_LONG, False
    seen = read(trajectories, name)
    for level, aggregation in zip(["token", "sequence"] * 3, AGGREGATIONS, strict=True):
        _, metrics = compare(
            trajectories, name, level, aggregation, mask_overlong_episodes=True, plainly={"overlong": True}, seen=seen
        )
        assert metrics["overlong_ratio"] == pytest.approx(1 / 3)
    _, metrics = compare(trajectories, name, "token", "trajectory_mean")
    assert "overlong_ratio" not in metrics
    both = {"mask_overlong_episodes": True, "mask_truncated_completions": True}
    compare(trajectories, name, "token", "trajectory_mean", **both, plainly={"overlong": True, "silence": True})


def test_each_environment_has_its_divisor():
    trajectories = [*make_trajectories(seed=4, groups=1, env="a"), *make_trajectories(seed=5, groups=1, env="b")]
    for group, trajectory in enumerate(trajectories):
        trajectory.group = group // 3
    plainly = {"divisors": {"a": 40.0, "b": 10.0}}
    compare(trajectories, "grpo", "token", "token_sum", plainly=plainly, **plainly)


def test_a_loss_weight_multiplies_an_environment_and_leaves_the_denominators():
    trajectories = [*make_trajectories(seed=4, groups=1, env="a"), *make_trajectories(seed=5, groups=1, env="b")]
    for group, trajectory in enumerate(trajectories):
        trajectory.group = group // 3
    envs = {"a": MixtureEntry(CueEnv, loss_weight=3.0), "b": MixtureEntry(CueEnv, loss_weight=0.5)}
    plainly = {"factors": {"a": 3.0, "b": 0.5}}
    for name in ("grpo", "step_gae", "token_gae"):
        compare(trajectories, name, "token", "step_mean", plainly=plainly, envs=envs, whitening_scope="batch")


@pytest.mark.parametrize("name", ["grpo", "step_gae", "token_gae"])
def test_a_kl_enters_the_loss_of_a_token_or_the_reward_of_a_step(name):
    trajectories = make_trajectories(seed=6, groups=2)
    for kl in ("k1", "k2", "k3"):
        where = "reward" if kl == "k1" else "loss"
        _, metrics = compare(
            trajectories, name, "token", "token_mean", beta=BETA, kl_estimator=kl, kl_in=where, plainly={"kl": kl}
        )
        assert ("kl_penalty" in metrics) == (kl == "k1") and metrics["kl"] > 0


@pytest.mark.parametrize("correction", ["token", "sequence"])
def test_importance_weights_are_truncated_and_missing_ones_are_one_and_counted(correction):
    trajectories = make_trajectories(seed=8, groups=2)
    steps = [step for trajectory in trajectories for step in trajectory.steps if step.response_ids]
    steps[0].logprobs = None
    steps[1].logprobs[0] = math.nan
    steps[2].logprobs[-1] = math.inf
    missing = len(steps[0].response_ids) + 2
    settings = {"importance_sampling_correction": correction, "plainly": {"correction": correction}}
    _, metrics = compare(trajectories, "step_gae", "token", "token_mean", **settings)
    share = missing / sum(len(step.response_ids) for step in steps)
    assert metrics["importance/missing"] == pytest.approx(share, rel=1e-5)
    assert metrics["sampling/missing_ratio"] == pytest.approx(share, rel=1e-5)
    assert 0.0 < metrics["importance/mean"] < 2.0


@pytest.mark.parametrize("name", ["grpo", "step_gae"])
def test_without_any_policy_term_the_policy_gets_no_gradient_rather_than_zeros(name):
    """With zeros the optimizer would still move it, by momentum and weight decay."""
    trajectories = make_trajectories(seed=9, groups=2)
    for trajectory in trajectories:
        for step in trajectory.steps:
            step.finish = "length"
    for trunk in ("detach", "full"):
        _, gradients, _, _ = one_update(
            trajectories, advantage_estimator=name, mask_truncated_completions=True, value_grad_to_trunk=trunk
        )
        learning = {key.split(".")[0] for key in gradients}
        assert learning == (
            set() if name == "grpo" else {"value_head"} if trunk == "detach" else {"value_head", "model"}
        )


@pytest.mark.parametrize("name", ["grpo", "step_gae", "token_gae"])
def test_an_environment_of_no_loss_weight_moves_nothing(name):
    """Zeros would move policy and critic by momentum and weight decay, where a mini-batch holds nothing else."""
    trajectories = make_trajectories(seed=4, groups=2, env="a")
    envs = {"a": MixtureEntry(CueEnv, loss_weight=0.0)}
    for trunk in ("detach", "full"):
        _, gradients, _, _ = one_update(trajectories, advantage_estimator=name, value_grad_to_trunk=trunk, envs=envs)
        assert not gradients
