"""Whole runs on a CPU: they learn, and the variants of the algorithm run and mean what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import TrainerCallback

from agent_r1_trainer import StepPOConfig, StepPOTrainer, StopReason, credit
from tests.helpers.text_envs import PARROT
from tests.helpers.training import CueEnv, StallEnv, make_model, make_tokenizer, make_trainer, measured, weights


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run long enough to learn the cue."""
    trainer = make_trainer(
        tmp_path_factory.mktemp("learned"), eval_env=CueEnv, max_steps=80, rollout_batch_size=32, gamma=0.9, lam=0.95,
        learning_rate=6e-3, eval_strategy="steps", eval_steps=80, eval_episodes=8, eval_greedy=True,
        log_completions=True, num_completions_to_print=1,
    )  # fmt: skip
    trainer.train()
    return trainer


def test_a_policy_learns_to_follow_the_cue(learned):
    log = measured(learned)
    rewards = [entry["reward"] for entry in log if "reward" in entry]
    assert rewards[0] < 1.5 and rewards[-1] > 3.5
    evaluations = [entry for entry in log if "eval_reward" in entry]
    assert [entry["step"] for entry in evaluations] == [0, 80]
    assert evaluations[1]["eval_reward"] > evaluations[0]["eval_reward"]
    assert {"eval_success", "eval_greedy_success", "eval_turns/mean"} <= set(evaluations[0])


def test_the_first_update_after_a_rollout_has_ratio_one(learned):
    firsts = [entry["log_ratio/first_max"] for entry in measured(learned) if "log_ratio/first_max" in entry]
    assert len(firsts) == 20 and max(firsts) < 1e-6
    assert max(entry["log_ratio/max"] for entry in measured(learned) if "log_ratio/max" in entry) > 1e-3


def test_the_log_holds_what_the_documentation_promises(learned):
    promised = {
        "loss", "grad_norm", "learning_rate", "reward", "reward_std", "success", "score", "turns/mean", "stalled_ratio",
        "invalid_ratio", "masked_ratio", "bootstrapped_ratio", "completions/mean_length", "completions/clipped_ratio",
        "stop/terminated", "stop/turn_limit", "ratio", "approx_kl", "entropy", "clip_ratio/low_mean",
        "clip_ratio/high_mean", "clip_ratio/region_mean", "loss/policy", "loss/value", "value/explained_variance",
        "log_ratio/max", "log_ratio/first_max", "grad_norm/critic", "value/scale", "num_tokens", "skipped_updates",
        "policy_version", "tokens/computed_per_distinct", "tokens/padding_share", "sampling/logp_difference/mean",
    }  # fmt: skip
    entry = next(entry for entry in learned.state.log_history if "reward" in entry)
    assert promised <= set(entry)
    assert {"time/rollout", "time/generation", "time/environment", "time/experience", "time/update"} <= set(entry)
    assert entry["tokens/computed_per_distinct"] == 1.0 and entry["sampling/missing_ratio"] == 0.0
    assert entry["sampling/logp_difference/max"] < 1e-4


def test_episodes_are_kept_to_look_at(learned):
    folder = Path(learned.args.output_dir) / "completions"
    files = sorted(folder.iterdir())
    assert len(files) == 20 and files[0].name == "completions-000004.jsonl"
    rows = [json.loads(line) for line in files[-1].read_text().splitlines()]
    episode = [row for row in rows if (row["task_id"], row["sample"]) == (rows[0]["task_id"], rows[0]["sample"])]
    assert {"prompt", "completion", "reward", "advantage", "value", "stop"} <= set(episode[0])
    assert episode[0]["prompt"].startswith("user")
    assert abs(sum(row["advantage"] for row in rows)) < 1e-3 * len(rows)


def stalling(folder, *, bootstrap: str, steps: int) -> list[dict[str, float]]:
    """Train where waiting is free and an answer is seldom right, with a critic that expects too much at first."""
    trainer = make_trainer(
        folder, env=StallEnv, max_turns=5, max_steps=steps, rollout_batch_size=32, max_completion_length=1,
        lam=0.95, bootstrap=bootstrap,
    )  # fmt: skip
    bias = torch.zeros(12)
    bias[7] = 4.0  # it mostly waits
    trainer.model.lm_head.register_forward_hook(lambda module, inputs, output: output + bias)
    torch.nn.init.constant_(trainer.value_head.linear.bias, 0.6)
    trainer._models.scales.load_row("", {"units": [0.0, 1.0]}, resume=False)
    trainer.train()
    return [entry for entry in measured(trainer) if "reward" in entry]


@pytest.mark.slow
def test_where_stalling_is_free_the_task_is_learned_all_the_same(tmp_path):
    log = stalling(tmp_path / "auto", bootstrap="auto", steps=100)
    assert log[0]["stalled_ratio"] > 0.3 and max(entry["bootstrapped_ratio"] for entry in log) == 0.0
    assert np.mean([entry["stalled_ratio"] for entry in log[-5:]]) < 0.1 and log[-1]["turns/mean"] < 2.5
    # What the default avoids: with the critic's value at the turn limit, waiting keeps what the critic hopes for.
    log = stalling(tmp_path / "value", bootstrap="value", steps=60)
    assert np.mean([entry["stalled_ratio"] for entry in log[-5:]]) > 0.25
    assert log[-1]["bootstrapped_ratio"] == log[-1]["stalled_ratio"]


VARIANTS = {
    "separate critic": {"critic": "separate", "critic_warmup_steps": 4, "value_clip": 0.5},
    "token ratio": {"importance_sampling_level": "token", "epsilon_high": 0.3, "dual_clip": 3.0},
    "detached head": {"value_grad_to_trunk": "detach", "loss_aggregation": "trajectory_mean"},
    "kl in the loss": {"beta": 0.1, "kl_estimator": "k2", "entropy_coef": 0.01},
    "kl in the reward": {"beta": 0.1, "kl_in": "reward", "kl_estimator": "k1", "loss_aggregation": "token_mean"},
    "importance weights": {"importance_sampling_correction": "token", "loss_aggregation": "trajectory_step_sum"},
    "one update": {"num_ppo_epochs": 1, "num_minibatches": 1, "critic": "separate"},
    "groups, no merging": {"num_generations": 4, "merge_steps": False, "history_thinking": "strip"},
    "bootstrap": {"bootstrap": "value", "max_turns": 2},
    "half precision": {"bf16": True, "rollout_batch_size": 8},
    "recomputed activations": {"activation_checkpointing": True, "rollout_concurrency": 5, "generation_batch_rows": 3},
    "recomputed in a separate critic": {"activation_checkpointing": True, "critic": "separate"},
    "more mini-batches than units": {"rollout_batch_size": 2, "num_minibatches": 4},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_run_and_move_the_policy(name, tmp_path):
    trainer = make_trainer(tmp_path, max_steps=8, logging_steps=1, **VARIANTS[name])
    before = weights(trainer)
    trainer.train()
    log = measured(trainer)
    assert all(torch.isfinite(torch.tensor(value)) for entry in log for value in entry.values())
    assert max(entry["log_ratio/first_max"] for entry in log if "log_ratio/first_max" in entry) < 1e-6
    changed = {
        name for name, value in weights(trainer).items() if name in before and not torch.equal(value, before[name])
    }
    assert any("embed_tokens" in name for name in changed)
    if name == "bootstrap":
        assert any(entry.get("bootstrapped_ratio", 0) > 0 for entry in log)
    if name.startswith("kl"):
        assert {"kl" if "loss" in name else "kl_penalty"} <= {key for entry in log for key in entry}
    if name == "groups, no merging":
        assert max(entry.get("tokens/computed_per_distinct", 0) for entry in log) > 1.2


def test_an_estimator_without_values_needs_no_critic(tmp_path):
    def returns(batch, *, gamma, lam):
        totals = np.bincount(batch.trajectory, weights=batch.rewards)
        return credit.Credit(advantages=credit.whiten(totals[batch.trajectory]))

    credit.register("test_returns", needs_values=False)(returns)
    trainer = make_trainer(tmp_path, max_steps=8, advantage_estimator="test_returns", bootstrap="value", max_turns=2)
    assert trainer.value_head is None and trainer.critic is None
    before = weights(trainer)
    trainer.train()
    assert any(not torch.equal(value, before[name]) for name, value in weights(trainer).items())
    assert not any(key.startswith("value/") or key == "loss/value" for entry in measured(trainer) for key in entry)


def test_only_the_critic_moves_in_its_warm_up(tmp_path):
    for critic, moved in (("value_head", "policy.value_head"), ("separate", "critic.")):
        trainer = make_trainer(tmp_path, max_steps=4, critic=critic, critic_warmup_steps=4, weight_decay=0.1)
        before = weights(trainer)
        trainer.train()
        after = weights(trainer)
        still = [name for name in before if not name.startswith(moved)]
        assert all(torch.equal(before[name], after[name]) for name in still if name.startswith("policy."))
        assert any(name.startswith(moved) and value.abs().sum() > 0 for name, value in after.items())


def test_a_target_kl_stops_the_policy_for_the_rest_of_the_rollout(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=8, logging_steps=1, learning_rate=3e-2, target_kl=1e-4)
    seen = []
    trainer.add_callback(_Watch(lambda: seen.append(weights(trainer)["policy.model.embed_tokens.weight"])))
    trainer.train()
    stopped = [entry["policy_stopped"] for entry in measured(trainer) if "policy_stopped" in entry]
    assert stopped[0] == 0.0 and 1.0 in stopped[:4] and stopped[4] == 0.0
    for step in range(1, 8):
        assert torch.equal(seen[step], seen[step - 1]) == bool(stopped[step])


def test_adapters_are_trained_with_the_value_head_and_without_dropout(tmp_path):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=4, lora_dropout=0.5, task_type="CAUSAL_LM")
    trainer = make_trainer(tmp_path, max_steps=8, peft_config=config, beta=0.05, save_strategy="steps", save_steps=4)
    before = weights(trainer)
    trainer.train()
    changed = {name for name, value in weights(trainer).items() if not torch.equal(value, before[name])}
    assert changed and all("lora_" in name or "value_head" in name for name in changed)
    assert any("value_head" in name for name in changed) and any("lora_B" in name for name in changed)
    assert max(e["log_ratio/first_max"] for e in measured(trainer) if "log_ratio/first_max" in e) < 1e-6
    assert (tmp_path / "checkpoint-8" / "adapter_model.safetensors").is_file()
    apart = make_trainer(tmp_path / "apart", max_steps=8, peft_config=config, critic="separate")
    before = weights(apart)
    apart.train()
    changed = {
        name for name, value in weights(apart).items() if name in before and not torch.equal(value, before[name])
    }
    assert changed and all("lora_" in name for name in changed)
    assert all(
        "lora_" in name or "head" in name for name, p in apart.critic.model.named_parameters() if p.requires_grad
    )
    resumed = make_trainer(tmp_path, max_steps=8, peft_config=config, beta=0.05, save_strategy="steps", save_steps=4)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert measured(resumed) == measured(trainer)
    with pytest.raises(ValueError, match="already has PEFT adapters"):
        make_trainer(tmp_path, model=trainer.model, peft_config=config)


class _Watch(TrainerCallback):
    def __init__(self, look) -> None:
        self.look = look

    def on_step_end(self, args, state, control, **kwargs):
        self.look()


def test_every_step_knows_which_policy_sampled_it(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=8)
    versions = []
    run = trainer.flow.run

    def spy(*args, **kwargs):
        trajectories = run(*args, **kwargs)
        versions.append({step.policy_version for t in trajectories for step in t.steps})
        return trajectories

    trainer.flow.run = spy
    trainer.train()
    assert versions == [{0}, {4}]


def test_an_evaluation_can_stand_alone(tmp_path):
    trainer = make_trainer(tmp_path, eval_env=CueEnv, max_steps=4, eval_episodes=3)
    state = torch.random.get_rng_state()
    first, second = trainer.evaluate(), trainer.evaluate()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first["eval_reward"] == second["eval_reward"] and first["eval_turns/mean"] > 0
    assert 0.0 <= first["eval_success"] <= 1.0 and f"eval_stop/{StopReason.TERMINATED.value}" in first


def test_an_optimizer_without_the_value_head_is_refused(tmp_path):
    model = make_model()
    config = StepPOConfig(str(tmp_path), max_steps=4, max_completion_length=2, report_to=[], use_cpu=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = StepPOTrainer(model, config, CueEnv, processing_class=make_tokenizer(), optimizers=(optimizer, None))
    with pytest.raises(ValueError, match="does not hold the value head"):
        trainer.train()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"eval_strategy": "steps", "eval_steps": 4, "max_steps": 4}, 'pass eval_env.*eval_strategy="no"'),
        ({"env": None, "max_steps": 4}, "env is needed"),
        ({"env": PARROT}, "max_steps"),
        ({"max_completion_length": 256, "max_steps": 4}, "leaves no room"),
    ],
)
def test_trainers_that_cannot_work_are_refused(kwargs, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        make_trainer(tmp_path, **kwargs)


def test_a_run_that_would_end_inside_a_rollout_is_refused(tmp_path):
    with pytest.raises(ValueError, match="inside a rollout"):
        make_trainer(tmp_path, num_train_epochs=0.1).train()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [2, 4]),
        ({"logging_first_step": True}, [1, 2, 4]),
        ({"entropy_steps": 4}, [4]),
        ({"entropy_steps": 0}, []),
        ({"entropy_steps": 0, "entropy_coef": 0.1}, [1, 2, 3, 4]),
    ],
)
def test_the_entropy_is_measured_in_the_updates_that_are_asked_for(settings, expected, tmp_path):
    trainer = make_trainer(tmp_path, max_steps=4, rollout_batch_size=4, **{"logging_steps": 2, **settings})
    measured_in = []

    class Store(type(trainer._store)):
        def add(self, metrics):
            super().add(metrics)
            if "entropy" in metrics:
                measured_in.append(trainer.state.global_step + 1)

    trainer._store.__class__ = Store
    trainer.train()
    assert measured_in == expected
