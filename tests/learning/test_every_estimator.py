"""What holds for every estimator: merging is exact, and real runs start at a ratio of one."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from transformers.utils import ModelOutput

from agent_r1_trainer import credit
from agent_r1_trainer.losses.tokens import Aggregation
from agent_r1_trainer.packing import merge_units
from tests.helpers.training import make_trainer, measured, weights
from tests.helpers.updates import flat, make_trajectories, one_update

ESTIMATORS = ["gigpo", "grpo", "reinforce_pp", "reinforce_pp_baseline", "rloo", "step_gae", "token_gae"]
AGGREGATIONS = Aggregation.__args__
LEVELS = ["token", "sequence"]
# Every level with every aggregation, and every estimator with every level.
CASES = [
    (name, level, AGGREGATIONS[(number + number // len(AGGREGATIONS)) % len(AGGREGATIONS)])
    for number, (name, level) in enumerate(product(ESTIMATORS, LEVELS))
]


def test_these_are_all_estimators():
    assert [name for name in credit.names() if not name.startswith("test_")] == ESTIMATORS


def test_these_are_all_levels_with_all_aggregations_and_all_estimators():
    assert {(level, aggregation) for _, level, aggregation in CASES} == set(product(LEVELS, AGGREGATIONS))
    assert {(name, level) for name, level, _ in CASES} == set(product(ESTIMATORS, LEVELS))


@pytest.mark.parametrize(("name", "level", "aggregation"), CASES)
def test_merged_and_unmerged_steps_give_the_same_loss_and_gradient(name, level, aggregation):
    trajectories = make_trajectories(seed=1, groups=2)
    assert len(merge_units(trajectories)) < 0.75 * len(merge_units(trajectories, merge=False))
    settings = {"advantage_estimator": name, "importance_sampling_level": level, "loss_aggregation": aggregation}
    settings |= {"entropy_coef": 0.01, "value_clip": 0.5, "gamma": 0.9, "lam": 0.8}
    loss, gradient, experience, _ = one_update(trajectories, **settings)
    other, expected, unmerged, _ = one_update(trajectories, merge_steps=False, **settings)
    size = flat(expected).norm()
    assert size > 1e-3
    assert loss == pytest.approx(other, rel=1e-5, abs=1e-6)
    assert (flat(gradient) - flat(expected)).norm() < 1e-5 * size
    torch.testing.assert_close(experience.old_values, unmerged.old_values, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_real_runs_start_at_a_ratio_of_one_and_move_the_policy(name, tmp_path):
    trainer = make_trainer(
        tmp_path, max_steps=8, logging_steps=1, num_generations=4, advantage_estimator=name, save_strategy="steps",
        save_steps=8, importance_sampling_level="token" if name == "token_gae" else "sequence",
    )  # fmt: skip
    before = weights(trainer)
    trainer.train()
    log = [entry for entry in measured(trainer) if "loss" in entry]
    assert max(entry["log_ratio/first_max"] for entry in log if "log_ratio/first_max" in entry) < 1e-6
    assert all(torch.isfinite(torch.tensor(value)) for entry in log for value in entry.values())
    changed = [key for key, value in weights(trainer).items() if not torch.equal(value, before[key])]
    assert any("embed_tokens" in key for key in changed)
    assert any("groups/zero_variance_ratio" in entry for entry in log)
    critic = any("value" in key for entry in log for key in entry)
    files = {path.name for path in (tmp_path / "checkpoint-8").iterdir()}
    assert critic == ("value_head.safetensors" in files) == (name in ("step_gae", "token_gae"))
    assert any("grad_norm/critic" in entry for entry in log) == critic


@pytest.mark.parametrize("estimator", ["grpo", "step_gae", "token_gae"])
def test_without_a_critic_nothing_is_built_and_no_pass_is_run_for_one(estimator, tmp_path):
    """With one update a rollout its old log-probabilities are those of the update: one pass a micro-batch."""
    trainer = make_trainer(
        tmp_path, max_steps=2, num_ppo_epochs=1, num_minibatches=1, num_generations=4, advantage_estimator=estimator,
        critic="separate" if estimator == "grpo" else "value_head",
    )  # fmt: skip
    passes, batches = [], []

    def count(module, args, kwargs, output):
        if isinstance(output, ModelOutput):  # the head is applied behind a trunk that only gives what it once computed
            passes.append(kwargs["use_cache"])

    trainer.model.model.register_forward_hook(count, with_kwargs=True)
    step = trainer.training_step

    def spy(*args):
        loss = step(*args)
        batches.append(len(trainer._experience.updates[0].batches))
        return loss

    trainer.training_step = spy
    trainer.train()
    scoring = sum(not cached for cached in passes)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    without = make_trainer(tmp_path, max_steps=4, advantage_estimator="rloo", num_generations=4)
    plain = sum(p.numel() for p in without.model.parameters())
    if estimator == "grpo":
        assert trainer.critic is None and trainer.value_head is None and trainer._models.scales is None
        # The first rollout is scored once more, to compare with the sampler.
        assert parameters == plain and scoring == batches[0] + sum(batches) > 0
        optimised = sum(p.numel() for group in trainer.optimizer.param_groups for p in group["params"])
        assert optimised == parameters
    else:
        assert parameters == plain + 33 and scoring == 2 * sum(batches)  # a head of 32 weights and a bias


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_a_separate_critic_over_tokens(level, tmp_path):
    trainer = make_trainer(
        tmp_path, max_steps=8, logging_steps=1, advantage_estimator="token_gae", critic="separate", bootstrap="value",
        max_turns=2, importance_sampling_level=level, max_completion_length=4,
    )  # fmt: skip
    before = weights(trainer)
    trainer.train()
    log = measured(trainer)
    assert max(entry["log_ratio/first_max"] for entry in log if "log_ratio/first_max" in entry) < 1e-6
    assert any(entry.get("bootstrapped_ratio", 0) > 0 for entry in log)
    assert any("lm_head" not in key and not torch.equal(weights(trainer)[key], before[key]) for key in before)
    values = trainer._experience.old_values
    assert len(values) == trainer._experience.layout.num_tokens and len(set(values.tolist())) > 3
