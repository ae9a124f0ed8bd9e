"""Settings: defaults of the machine, and what is refused with which advice."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from transformers import HfArgumentParser

from agent_r1_trainer import StepPOConfig
from agent_r1_trainer._compat import BaseConfig
from agent_r1_trainer.sft.settings import make_sft_config

DEFAULTS = {"use_cpu": True, "report_to": []}


def config(tmp_path, **kwargs) -> StepPOConfig:
    return StepPOConfig(str(tmp_path), **DEFAULTS, **kwargs)


def test_on_a_cpu_nothing_is_cast_and_nothing_recomputed(tmp_path):
    made = config(tmp_path)
    assert made.bf16 is False and made.activation_checkpointing is False and made.logging_nan_inf_filter is False
    assert made.metric_for_best_model == "eval_success" and made.greater_is_better
    assert made.updates_per_rollout == 4 and made.groups_per_rollout == 64 and made.save_steps == 500
    assert made.critic_lr == pytest.approx(1e-5) and made.critic_clip == made.max_grad_norm


def test_the_default_of_save_steps_fits_every_number_of_updates(tmp_path):
    assert config(tmp_path, num_minibatches=3).save_steps == 501


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ({"gradient_accumulation_steps": 2}, "rollout_batch_size"),
        ({"auto_find_batch_size": True}, "micro_batch_tokens"),
        ({"per_device_train_batch_size": 4}, "rollout_batch_size"),
        ({"ignore_data_skip": True}, "tasks of a rollout"),
        ({"include_num_input_tokens_seen": "all"}, "num_tokens"),
        ({"fp16": True}, "bf16"),
        ({"ddp_static_graph": True}, "micro-batches"),
        ({"neftune_noise_alpha": 5.0}, "ratios"),
        ({"label_smoothing_factor": 0.1}, "labels"),
        ({"enable_jit_checkpoint": True}, "SIGTERM"),
        ({"use_liger_kernel": True}, "forward"),
        ({"max_steps": 10}, "8 or 12"),
        ({"save_steps": 6}, "4 or 8"),
        ({"save_steps": 2}, "take 4"),
        ({"save_strategy": "best", "eval_strategy": "steps", "eval_steps": 7}, "eval_steps"),
        ({"rollout_batch_size": 10, "num_generations": 4}, "whole groups"),
        ({"temperature": 0.0}, "temperature"),
        ({"gamma": 1.1}, "gamma"),
        ({"beta": 0.1, "kl_estimator": "k1"}, "k2"),
        ({"beta": 0.1, "kl_in": "reward"}, "k1"),
        ({"advantage_estimator": "none_such"}, "step_gae"),
        ({"dual_clip": 0.9}, "dual_clip"),
        ({"value_clip": 0.0}, "value_clip"),
        ({"bootstrap": "always"}, "bootstrap"),
        ({"critic": "none"}, "critic"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"target_kl": 0.0}, "target_kl"),
        ({"importance_sampling_cap": 0.5}, "importance_sampling_cap"),
        ({"max_turns": 0}, "max_turns"),
        ({"micro_batch_tokens": 0}, "micro_batch_tokens"),
        ({"generation_cache_tokens": -1}, "generation_cache_tokens"),
        ({"critic_max_grad_norm": -1.0}, "critic_max_grad_norm"),
        ({"entropy_coef": -0.01}, "entropy_coef"),
        ({"eval_temperature": -0.1}, "eval_temperature"),
        ({"eval_temperature": 0, "eval_num_generations": 4}, "pass@k says nothing"),
        ({"learning_rate": float("inf")}, "learning_rate must be a number of at least 0, got inf"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number of at least 0, got nan"),
        ({"temperature": float("inf")}, "temperature must be a number above 0, got inf"),
        ({"eval_temperature": float("inf")}, "eval_temperature must be a number of at least 0 or None, got inf"),
        ({"beta": float("inf")}, "beta must be a number of at least 0, got inf"),
        ({"num_minibatches": 2.5}, "num_minibatches must be a whole number of at least 1, got 2.5"),
        ({"num_minibatches": True}, "num_minibatches must be a whole number of at least 1, got True"),
        ({"merge_steps": "false"}, "merge_steps must be True or False, got 'false'"),
        ({"max_turns": "5"}, "max_turns must be a whole number of at least 1 or None, got '5'"),
        ({"advantage_kwargs": {"lambda": 0.9}}, "no option 'lambda'"),
        ({"advantage_estimator": "gigpo", "advantage_kwargs": {"step_weight": "much"}}, "step_weight"),
        ({"advantage_estimator": "grpo"}, "num_generations=1 leaves 'grpo' nothing to compare.*2 or more"),
    ],
)
def test_what_cannot_work_is_refused_with_advice(tmp_path, setting, advice):
    with pytest.raises(ValueError, match=advice):
        config(tmp_path, **setting)


@pytest.mark.parametrize("value", [float("nan"), "0.5", [0.5]])
def test_no_field_takes_what_is_no_number_for_one(tmp_path, value):
    inherited = BaseConfig.__dataclass_fields__
    hints = get_type_hints(StepPOConfig)
    names = [name for name, hint in hints.items() if hint in (float, float | None) and name not in inherited]
    assert len(names) > 10
    for name in names:
        with pytest.raises(ValueError, match=f"^{name} must be a number"):
            config(tmp_path, **{name: value})


def test_a_field_of_named_values_takes_those_of_its_annotation_only(tmp_path):
    hints = {name: hint for name, hint in get_type_hints(StepPOConfig).items() if get_origin(hint) is Literal}
    assert len(hints) > 10
    for name, hint in hints.items():
        with pytest.raises(ValueError, match=f"^{name} must be {' or '.join(map(repr, get_args(hint)))}, got 'other'"):
            config(tmp_path, **{name: "other"})


def test_every_field_explains_itself_and_can_be_set_from_a_command_line(tmp_path):
    own = {f.name for f in dataclasses.fields(StepPOConfig)} - {f.name for f in dataclasses.fields(BaseConfig)}
    assert len(own) > 30
    assert all(f.metadata.get("help") for f in dataclasses.fields(StepPOConfig) if f.name in own)
    arguments = ["--output_dir", str(tmp_path), "--use_cpu", "--env_kwargs", '{"split": "train"}', "--max_turns", "5"]
    [parsed] = HfArgumentParser(StepPOConfig).parse_args_into_dataclasses([*arguments, "--dual_clip", "3"])
    assert (parsed.env_kwargs, parsed.max_turns, parsed.dual_clip) == ({"split": "train"}, 5, 3.0)
    with pytest.raises(SystemExit):
        HfArgumentParser(StepPOConfig).parse_args_into_dataclasses(["--help"])


def test_a_machine_with_an_apple_gpu_trains_on_its_cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = StepPOConfig(str(tmp_path))
    assert config.use_cpu and not config.bf16 and config.micro_batch_tokens == 4096
    assert config.device.type == "cpu"


@pytest.mark.parametrize("given", ["wandb", ["wandb"], "swanlab"])
def test_reporting_to_what_is_not_installed_is_refused_in_a_line(given, tmp_path):
    name = given if isinstance(given, str) else given[0]
    assert importlib.util.find_spec(name) is None
    for make in (StepPOConfig, lambda folder, **settings: make_sft_config(folder, settings)):
        with pytest.raises(ValueError, match=rf"report_to='{name}' cannot work: .*[Ii]nstall.*{name}") as caught:
            make(str(tmp_path), use_cpu=True, report_to=given)
        assert "\n" not in str(caught.value)


def test_reporting_to_an_unknown_name_lists_those_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"report_to='wandbb' cannot work: there are .*, wandb"):
        StepPOConfig(str(tmp_path), use_cpu=True, report_to="wandbb")
    assert StepPOConfig(str(tmp_path), use_cpu=True, report_to="none").report_to == []
