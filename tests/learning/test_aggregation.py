"""What the policy loss is the mean of: mini-batches of the trainer against plain loops over trajectories in float64."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, get_args

import gymnasium
import pytest
import torch
from accelerate import Accelerator
from gymnasium.wrappers import TimeLimit

from agent_r1_trainer.environments.factory import turn_limit
from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.flows import SingleStepFlow
from agent_r1_trainer.learning.experience import Experience
from agent_r1_trainer.learning.make_experience import ExperienceMaker
from agent_r1_trainer.losses import Aggregation, token_weights
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.trainer.steppo_trainer import StepPOTrainer
from agent_r1_trainer.trajectory import StopReason, Trajectory
from tests.helpers.training import CueEnv, make_model, make_tokenizer, make_trainer
from tests.helpers.updates import make_trajectories, policy_of

AGGREGATIONS = get_args(Aggregation)
DIVISORS = {"a": 40.0, "b": 12.0}


def batch(seed: int) -> list[Trajectory]:
    """Of two environments, each with a masked episode, an overlong one, a silent one and a group of equal returns."""
    made = []
    for number, env in enumerate("ab"):
        part = make_trajectories(seed=seed + number, groups=3, env=env)
        for trajectory in part:
            trajectory.group += 3 * number
        part[0].masked = True
        part[1].stop, part[1].steps[-1].terminated = StopReason.PROMPT_TOO_LONG, False
        for step in part[4].steps:
            step.response_ids, step.logprobs = [], []
        for trajectory in part[6:]:
            trajectory.steps[0].reward += 3.0 - trajectory.total_reward
        made += part
    return made


def collect(trajectories: list[Trajectory], **kwargs: Any) -> Experience:
    fields = {"num_generations": 3, "rollout_batch_size": 18, "micro_batch_tokens": 200, "advantage_estimator": "grpo"}
    config = StepPOConfig("unused", use_cpu=True, report_to=[], max_completion_length=8, **{**fields, **kwargs})
    maker = ExperienceMaker(
        config, Accelerator(cpu=True), policy_of(0), critic=None, reference=None, scales=None, pad_id=0,
        merge=True, loss_divisors=DIVISORS, token_budget=int(config.micro_batch_tokens or 0),
    )  # fmt: skip
    maker._compared = True  # the sampler's log-probabilities are made up
    return maker.make(0, trajectories)[0]


def plainly(experience: Experience, x: torch.Tensor, aggregation: str, left_out: Any, minibatches: int) -> list[float]:
    """The mean of `x`, one number a token, over each mini-batch."""
    tokens: list[list[list[float]]] = []  # of each step of each trajectory
    at = 0
    for trajectory in experience.trajectories:
        tokens.append([])
        for step in trajectory.steps:
            numbers = x[at : at + len(step.response_ids)].tolist()
            tokens[-1].append([] if left_out(trajectory, step) else numbers)
            at += len(step.response_ids)
    results = []
    for update in experience.updates[:minibatches]:
        inside = {number for part in update.batches if part.real for number in part.step_index.tolist()}
        flat, steps, shares_of_tokens, shares_of_steps, total = [], [], [], [], 0.0
        by_tokens, by_steps, sums, number = [], [], [], 0
        for trajectory, replies in zip(experience.trajectories, tokens, strict=True):
            mine = [reply for t, reply in enumerate(replies) if number + t in inside and reply]
            number += len(replies)
            total += sum(sum(reply) for reply in mine) / DIVISORS[trajectory.env]
            if not mine:
                continue
            whole = [reply for reply in replies if reply]
            flat += [number for reply in mine for number in reply]
            steps += [sum(reply) / len(reply) for reply in mine]
            shares_of_tokens.append(sum(map(len, mine)) / sum(map(len, whole)))
            shares_of_steps.append(len(mine) / len(whole))
            by_tokens.append(sum(map(sum, mine)) / sum(map(len, whole)))
            by_steps.append(sum(sum(reply) / len(reply) for reply in mine) / len(whole))
            sums.append(sum(sum(reply) / len(reply) for reply in mine))
        results.append(
            {
                "step_mean": sum(steps) / max(len(steps), 1),
                "token_mean": sum(flat) / max(len(flat), 1),
                "token_sum": total / (len(experience.trajectories) / minibatches),
                "trajectory_mean": sum(by_tokens) / max(sum(shares_of_tokens), 1e-9),
                "trajectory_step_mean": sum(by_steps) / max(sum(shares_of_steps), 1e-9),
                "trajectory_step_sum": sum(sums) / max(sum(shares_of_steps), 1e-9),
            }[aggregation]
        )
    return results


CHOICES: Mapping[str, Any] = {
    "": lambda trajectory, step: False,
    "mask_truncated_completions": lambda trajectory, step: step.finish == "length",
    "mask_overlong_episodes": lambda trajectory, step: trajectory.stop is StopReason.PROMPT_TOO_LONG,
    "filter_zero_variance_groups": lambda trajectory, step: False,
}


@pytest.mark.parametrize("option", CHOICES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_mini_batches_average_as_a_plain_loop_does(aggregation, option):
    for minibatches in (1, 3):
        trajectories = batch(seed=20)
        settings = {option: True} if option else {}
        experience = collect(trajectories, loss_aggregation=aggregation, num_minibatches=minibatches, **settings)
        assert len(experience.trajectories) == (16 if option != "filter_zero_variance_groups" else 10)
        generator = torch.Generator().manual_seed(3)
        x = torch.randn(experience.layout.num_tokens, generator=generator, dtype=torch.float64)
        found = []
        for update in experience.updates:
            weighted = 0.0
            for part in update.batches:
                weights = token_weights(part.read_steps(update.policy_weights).double(), part.token_step)
                weighted += float((weights * part.read_tokens(x)).sum())
            found.append(weighted)
        expected = plainly(experience, x, aggregation, CHOICES[option], minibatches)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_the_constant_is_one_for_all_tokens_of_a_rollout():
    """However the episodes are dealt out to mini-batches, and whichever of their replies are left out."""
    for option in ("", "mask_truncated_completions", "mask_overlong_episodes"):
        settings = {option: True} if option else {}
        experience = collect(batch(seed=30), loss_aggregation="token_sum", num_minibatches=3, **settings)
        total = torch.stack([update.policy_weights for update in experience.updates]).sum(0)
        kept = experience.trajectories
        step = 0
        for trajectory in kept:
            for reply in trajectory.steps:
                left_out = CHOICES[option](trajectory, reply)
                constant = len(kept) / 3 * DIVISORS[trajectory.env]
                assert float(total[step]) == pytest.approx(0 if left_out else len(reply.response_ids) / constant)
                step += 1


def test_the_limit_of_turns_is_that_of_the_wrappers():
    assert turn_limit(gymnasium.make("CartPole-v1", max_episode_steps=7)) == 7
    assert turn_limit(gymnasium.make("CartPole-v1", max_episode_steps=-1)) is None
    assert turn_limit(TimeLimit(TimeLimit(CueEnv(), 9), 4)) == 4 and turn_limit(CueEnv()) is None
    flow = SingleStepFlow(["a"], lambda task, text: 1.0, make_tokenizer(), max_prompt_length=9)
    assert flow.turn_limits == {"": 1}


def constants(tmp_path: Any, env: Any, **kwargs: Any) -> dict[str, float]:
    config = StepPOConfig.for_algorithm(
        "dr_grpo", str(tmp_path), use_cpu=True, report_to=[], max_steps=4, max_completion_length=6, **kwargs
    )
    trainer = StepPOTrainer(model=make_model(), args=config, env=env, processing_class=make_tokenizer())
    return trainer._loss_divisors


def test_dr_grpo_divides_by_the_most_tokens_of_an_episode_in_each_environment(tmp_path):
    assert constants(tmp_path, CueEnv, max_turns=5) == {"": 30.0}
    assert constants(tmp_path, CueEnv, loss_divisor=50) == {"": 50.0}
    mixture = {"a": MixtureEntry(CueEnv, max_turns=3), "b": MixtureEntry(CueEnv, loss_divisor=11.0)}
    assert constants(tmp_path, mixture) == {"a": 18.0, "b": 11.0}
    assert constants(tmp_path, {**mixture, "c": CueEnv}, loss_divisor=7) == {"a": 7.0, "b": 11.0, "c": 7.0}
    assert constants(tmp_path, {**mixture, "c": MixtureEntry(CueEnv, weight=0)}) == {"a": 18.0, "b": 11.0}


def test_dr_grpo_without_a_limit_of_turns_says_what_to_set(tmp_path):
    with pytest.raises(ValueError, match="has no limit: set max_turns, or loss_divisor"):
        constants(tmp_path, CueEnv)
    with pytest.raises(ValueError, match="environment 'b' has no limit"):
        constants(tmp_path, {"a": MixtureEntry(CueEnv, max_turns=3), "b": CueEnv})


def test_a_divisor_that_would_be_ignored_is_refused(tmp_path):
    with pytest.raises(ValueError, match="loss_divisor=9 has no meaning with loss_aggregation='step_mean'"):
        StepPOConfig(str(tmp_path), use_cpu=True, loss_divisor=9)
    for value in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"loss_divisor must be a number above 0 or None, got {value}"):
            StepPOConfig(str(tmp_path), use_cpu=True, loss_aggregation="token_sum", loss_divisor=value)
        with pytest.raises(ValueError, match=f"loss_divisor must be a number above 0 or None, got {value}"):
            MixtureEntry(CueEnv, loss_divisor=value)
    with pytest.raises(ValueError, match="environment 'a' has loss_divisor=9"):
        make_trainer(tmp_path, env={"a": MixtureEntry(CueEnv, loss_divisor=9)}, max_steps=4)


def test_a_run_of_dr_grpo_trains(tmp_path):
    trainer = make_trainer(
        tmp_path, max_steps=4, logging_steps=1, advantage_estimator="grpo", loss_aggregation="token_sum",
        num_generations=4, max_turns=5, advantage_kwargs={"normalize_std": False},
    )  # fmt: skip
    trainer.train()
    norms = [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]
    assert len(norms) == 4 and max(norms) > 0.0


def test_an_episode_that_overran_in_a_real_run_is_left_out(tmp_path):
    random.seed(0)
    trainer = make_trainer(tmp_path, max_steps=4, logging_steps=1, max_prompt_length=12, mask_overlong_episodes=True)
    trainer.train()
    log = [entry for entry in trainer.state.log_history if "overlong_ratio" in entry]
    assert log and all(entry["overlong_ratio"] == pytest.approx(entry["stop/prompt_too_long"]) for entry in log)
    assert max(entry["overlong_ratio"] for entry in log) > 0
