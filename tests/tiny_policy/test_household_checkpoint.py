"""The shipped household policy: small, honest, and trained by the shipped recipe."""

import json

import pytest
import torch
import yaml

from agent_r1_trainer.tiny_policy.household.demonstrations import ENV_ID, ENV_KWARGS, MAX_TURNS
from agent_r1_trainer.tiny_policy.household.quality import measure_quality
from agent_r1_trainer.tiny_policy.loading import CHECKPOINTS, load_tiny_policy
from agent_r1_trainer.train import train_command
from agent_r1_trainer.train.recipes import find_recipe
from agent_r1_trainer.train.settings import read_settings

CHECKPOINT = CHECKPOINTS["tiny-household"]


def test_size():
    assert sum(path.stat().st_size for path in CHECKPOINT.iterdir()) <= 500_000
    model, tokenizer = load_tiny_policy(CHECKPOINT)
    assert model.config.vocab_size == len(tokenizer)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


@pytest.mark.slow
def test_the_start_is_honest():
    """Recorded on 240 tasks, twice: sampled 0.18 and 0.24, greedy 0.00, at temperature 0.3 0.07; valid replies 0.66."""
    model, tokenizer = load_tiny_policy(CHECKPOINT)
    quality = measure_quality(model, tokenizer, tasks=60)
    assert 0.06 <= quality.sampled <= 0.38  # three standard deviations around 0.21
    assert quality.greedy <= 0.10 and quality.cold <= 0.18  # no temperature shows a good policy
    assert quality.command_skill >= 0.55


def test_the_recipe_trains_where_the_policy_was_cloned_and_tests_elsewhere():
    settings = read_settings(find_recipe("household"))
    assert settings.model == "tiny-household" and settings.env == ENV_ID
    assert settings.training["max_turns"] == MAX_TURNS
    parts = (settings.training["env_kwargs"], settings.training["eval_env_kwargs"], settings.exam.env_kwargs)
    assert [part["split"] for part in parts] == ["train", "valid_seen", "valid_unseen"]
    assert all(part["difficulty"] == ENV_KWARGS["difficulty"] for part in parts)


@pytest.mark.slow
def test_two_rollouts_of_the_recipe(tmp_path):
    settings = yaml.safe_load(find_recipe("household").read_text(encoding="utf-8"))
    settings |= {"rollout_batch_size": 8, "eval_episodes": 4, "env_kwargs": {**settings["env_kwargs"], "games": 50}}
    rounds = settings["num_ppo_epochs"] * settings["num_minibatches"]
    settings |= {"max_steps": 2 * rounds, "save_steps": 2 * rounds, "eval_steps": rounds, "logging_steps": rounds}
    settings["exam"] |= {"episodes": 6}
    path = tmp_path / "short.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    out = tmp_path / "run"
    assert train_command(config=path, preset=None, seed=0, out=out) == 0
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert report["episodes"] == 16 and len(report["exam"]) == 5
    trained = load_tiny_policy(out / "model")[0].state_dict()
    start = load_tiny_policy(CHECKPOINT)[0].state_dict()
    assert not torch.equal(trained["model.embed_tokens.weight"], start["model.embed_tokens.weight"])
