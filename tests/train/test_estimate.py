"""Memory before a run, against what runs take."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from transformers import Qwen2Config, Qwen2ForCausalLM
from typer.testing import CliRunner

from agent_r1_trainer.cli import app
from agent_r1_trainer.learning.scoring import attach_scoring, score
from agent_r1_trainer.train.estimate import Plan, advise, estimate, keys_values, make_plan, parse_memory, read_config
from agent_r1_trainer.train.settings import TrainSettings
from agent_r1_trainer.train.tracing import Pass, _batch, count_parameters, trace_pass

SMALL = dict(
    hidden_size=64, intermediate_size=128, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=500, tie_word_embeddings=True, max_position_embeddings=512,
)  # fmt: skip


ONE_LAYER = {**SMALL, "num_hidden_layers": 1}  # where no more is asked than what a change does to a figure


def profiled(config: Qwen2Config, one: Pass) -> int:
    """Bytes at the peak of a real pass, as PyTorch's profiler sees them allocated and freed."""
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config).train()
    attach_scoring(model, temperature=1.0, value_head=1)
    if one.checkpointing:
        model.gradient_checkpointing_enable()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    batch = _batch(one)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        scores = score(model, batch, values=True)
        assert scores.values is not None
        (scores.logprobs.sum() + scores.values.sum()).backward()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_pass_is_traced_as_it_allocates(checkpointing):
    config = Qwen2Config(**SMALL)
    one = Pass(rows=3, length=120, replies=200, checkpointing=checkpointing)
    assert 0.98 < trace_pass(config, one) / profiled(config, one) < 1.2


def test_parameters_are_counted_as_they_are_built():
    config = Qwen2Config(**{**SMALL, "tie_word_embeddings": False})
    parameters = sum(p.numel() for p in Qwen2ForCausalLM(config).parameters())
    assert count_parameters(config) == (parameters, parameters, 500 * 64)
    lora = {"r": 2, "target_modules": ["q_proj"]}
    assert count_parameters(config, lora) == (parameters + 5 * 4 * 64, 5 * 4 * 64, 500 * 64)


def test_keys_and_values_of_known_models():
    # Qwen2.5-0.5B: 24 layers x 2 heads x 64 x 2 x 2 bytes = 12,288 bytes a token.
    config = Qwen2Config(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2)
    assert keys_values(config, 1000, 2) == 1600 * 12_288


def test_what_is_trained_has_gradients_and_moments():
    config = Qwen2Config(**ONE_LAYER)
    total, _, _ = count_parameters(config)
    plan = Plan(256, 128, 4)
    plain = estimate(config, plan)
    assert plain.weights == 4 * total and plain.gradients == 4 * (total + 65) and plain.optimizer == 8 * (total + 65)
    assert plain.reference == 0 < plain.activations
    separate = estimate(config, dataclasses.replace(plan, critic="separate", reference=True))
    assert separate.reference == plain.weights and separate.optimizer > 1.9 * plain.optimizer
    lora = {"r": 2, "target_modules": "all-linear"}
    adapters = estimate(config, dataclasses.replace(plan, lora=lora, weight_bytes=2))
    assert adapters.optimizer < 0.2 * plain.optimizer and adapters.weights < plain.weights


def test_what_a_file_says_is_planned():
    settings = TrainSettings("tiny", "AgentR1/HotpotQA-v0", training={"output_dir": "unused", "beta": 0.1})
    config = Qwen2Config(**SMALL)
    cpu, gpu = (make_plan(settings, config, gpu=there) for there in (False, True))
    assert (cpu.micro_batch_tokens, cpu.bf16, cpu.checkpointing, cpu.weight_bytes) == (4096, False, False, 4)
    assert (gpu.micro_batch_tokens, gpu.bf16, gpu.checkpointing, gpu.weight_bytes) == (16384, True, True, 2)
    assert cpu.length == 512 and cpu.reference and cpu.critic == "value_head" and cpu.generates
    further = {
        "micro_batch_tokens": "auto",
        "advantage_estimator": "grpo",
        "num_generations": 2,
        "use_vllm": True,
        "bf16": False,
    }
    settings = dataclasses.replace(settings, training={**settings.training, **further})
    other = make_plan(settings, config, gpu=True)
    assert (other.micro_batch_tokens, other.critic, other.generates, other.bf16) == (16384, "none", False, False)


def test_what_training_refuses_is_refused_by_the_plan():
    settings = TrainSettings("tiny", "AgentR1/HotpotQA-v0", training={"output_dir": "unused", "use_vllm": True})
    config = Qwen2Config(**SMALL)
    there = dataclasses.replace(settings, training={**settings.training, "activation_offloading": True, "bf16": True})
    assert make_plan(there, config, gpu=True).bf16  # what only a GPU has
    for name, value in (("generation_batch_tokens", 4096), ("vllm_mode", "both"), ("top_p", 0.9)):
        with pytest.raises(ValueError, match=name):
            make_plan(dataclasses.replace(settings, training={**settings.training, name: value}), config, gpu=True)


def test_advice_makes_a_run_fit():
    config, plan = Qwen2Config(**ONE_LAYER), Plan(2048, 256, 16)
    now = estimate(config, plan).peak
    assert advise(config, plan, 2 * now) == []
    steps = advise(config, plan, int(0.6 * now))
    assert steps and steps[-1][1].peak <= 0.6 * now
    updates, rollouts = ([getattr(then, name) for _, then in steps] for name in ("update", "rollout"))
    assert updates == sorted(updates, reverse=True) and rollouts == sorted(rollouts, reverse=True)


@pytest.mark.parametrize("text", ["", "-3GiB", "much", "0GiB", "GiB", "80", "1.5", "80i"])
def test_sizes_that_are_none(text):
    with pytest.raises(ValueError, match="such as 80GiB"):
        parse_memory(text)


def test_a_config_alone_is_enough(tmp_path):
    Qwen2Config(**SMALL).save_pretrained(tmp_path / "model")
    for name in (tmp_path / "model", tmp_path / "model" / "config.json"):
        assert read_config(str(name)).vocab_size == 500
    assert read_config("tiny").model_type == "qwen3"
    with pytest.raises(OSError, match="config.json"):
        read_config(str(tmp_path))


def test_a_model_that_the_hub_does_not_give_is_named():
    """The tests are offline, so no name is found."""
    with pytest.raises(OSError, match=r"config\.json is enough, but there is no folder some/model"):
        read_config("some/model")
    with pytest.raises(OSError, match="there is no folder runs/a/model"):
        read_config("runs/a/model")


def test_the_command(tmp_path):
    Qwen2Config(**ONE_LAYER).save_pretrained(tmp_path / "model")
    given = ["train", "--config", "demo", "--estimate", "--model", str(tmp_path / "model")]
    fits = CliRunner().invoke(app, [*given, "--gpu-memory", "80GiB"])
    assert fits.exit_code == 0, fits.output
    assert all(word in fits.output for word in ("weights", "optimizer", "keys and values", "fits"))
    small = CliRunner().invoke(app, [*given, "--gpu-memory", "20MiB"])
    assert small.exit_code == 1 and "micro_batch_tokens" in small.output
    wrong = CliRunner().invoke(app, [*given, "--gpu-memory", "80"])
    assert wrong.exit_code == 2 and "with a unit, such as 80GiB, got '80'" in wrong.output


CASES = {
    "a large vocabulary": dict(
        model={**SMALL, "hidden_size": 128, "vocab_size": 60_000}, prompt=100, reply=200, episodes=8,
        settings={"micro_batch_tokens": 1200},
    ),
    "many weights": dict(
        model={**SMALL, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8}, prompt=60, reply=40,
        episodes=8, settings={"micro_batch_tokens": 400, "critic": "separate"},
    ),
    "long sequences": dict(
        model={**SMALL, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 6}, prompt=400, reply=100,
        episodes=8, settings={"micro_batch_tokens": 2000, "activation_checkpointing": False},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_is_near_to_what_a_run_takes(name):
    case = CASES[name]
    # Memory goes back to the system when it is freed, so that the peak is what was live.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.helpers.memory_run", json.dumps(case)]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    measured = int(run.stdout.split()[-1])
    settings, length = case["settings"], case["prompt"] + case["reply"]
    rows = settings["micro_batch_tokens"] // length
    plan = Plan(
        settings["micro_batch_tokens"], length, case["episodes"], critic=settings.get("critic", "value_head"),
        generates=False,
    )  # fmt: skip
    found = estimate(Qwen2Config(**case["model"]), plan, rows=rows, replies=rows * case["reply"])
    print(f"{name}: estimated {found.peak / 2**20:.0f} MiB, measured {measured / 2**20:.0f} MiB")
    assert found.peak == pytest.approx(measured, rel=0.2)
