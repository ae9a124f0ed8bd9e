"""Budgets of memory against what passes and caches take."""

from __future__ import annotations

import pytest
import torch

from agent_r1_trainer._compat import recompute_activations
from agent_r1_trainer.fields import Budget
from agent_r1_trainer.generation.transformers_generator import free_memory, generation_limits
from agent_r1_trainer.learning.memory import (
    LiveMemory,
    bytes_a_token,
    head_bytes,
    micro_batch_limit,
    pending_bytes,
)
from agent_r1_trainer.learning.scoring import attach_scoring, score
from agent_r1_trainer.packing import Layout, collate, merge_units
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.architectures import make_architecture
from tests.helpers.training import make_model, make_trainer


def test_a_budget_is_a_number_of_tokens_a_size_or_a_share_of_what_is_free():
    assert Budget.read("x", 300).in_tokens(8.0, 1e9) == 300
    assert Budget.read("x", "2 KiB").in_tokens(8.0, 1e9) == 256
    assert Budget.read("x", "auto").in_tokens(8.0, 4096.0) == 512
    assert Budget.read("x", "1B").in_tokens(8.0, 0.0) == 1, "a row that is longer is computed alone"
    for wrong in ("0GiB", "12", "12GB ", "much", "-1GiB", ""):
        with pytest.raises(ValueError, match=r"x must be a number of tokens, a size such as '12GiB', or 'auto', got"):
            Budget.read("x", wrong)
    assert free_memory(torch.device("cpu")) > 1 << 20


def test_settings_that_are_no_budget_are_refused_and_a_cpu_has_numbers_of_its_own(tmp_path):
    config = StepPOConfig(str(tmp_path), use_cpu=True)
    names = ("micro_batch_tokens", "generation_batch_tokens", "generation_cache_tokens")
    assert [config.budget(name).tokens for name in names] == [4096, 262_144, 131_072]
    for name in names:
        with pytest.raises(ValueError, match=name):
            StepPOConfig(str(tmp_path), use_cpu=True, **{name: "12 gigabytes"})
    with pytest.raises(ValueError, match="micro_batch_tokens"):
        StepPOConfig(str(tmp_path), use_cpu=True, micro_batch_tokens=0)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_micro_batch_takes_the_memory_that_it_may_take(recompute):
    model = make_model(layers=4)
    model.config.max_position_embeddings = 4096
    attach_scoring(model, temperature=1.0, value_head=1)
    model.train()
    if recompute:
        recompute_activations(model)
    budget = head_bytes(model) + (8 << 20)
    limit = micro_batch_limit(Budget(memory=budget), model, free=0, pending=0)
    assert all(parameter.grad is None for parameter in model.parameters())
    steps = [[Step([3] * (limit // 4 - 8), [4] * 8)] for _ in range(4)]
    trajectories = [Trajectory("", each, StopReason.TERMINATED) for each in steps]
    batch = collate(merge_units(trajectories), trajectories, Layout(trajectories), pad_id=0)
    with LiveMemory() as memory:
        score(model, batch, values=False).logprobs.sum().backward()
    assert 0.8 * (8 << 20) < memory.peak < 1.1 * budget
    assert micro_batch_limit(Budget(), model, free=budget * 20, pending=0) > limit
    assert micro_batch_limit(Budget(), model, free=budget, pending=budget) == 1
    assert micro_batch_limit(Budget(tokens=7), model, free=0, pending=0) == 7


def test_recomputed_activations_leave_room_for_more_tokens():
    model = make_model(layers=6)
    attach_scoring(model, temperature=1.0)
    model.train()
    kept = bytes_a_token(model)
    recompute_activations(model)
    assert bytes_a_token(model) < 0.5 * kept
    assert pending_bytes(model.parameters()) == 12 * sum(parameter.numel() for parameter in model.parameters())


def test_keys_and_values_are_counted_in_the_precision_of_attention():
    model, budgets = make_model(), (Budget(memory=1 << 20), Budget(memory=1 << 19))
    width = 2 * 2 * 2 * 8  # keys and values of 2 layers, 2 heads, 8 numbers
    for rows in (True, False):
        assert generation_limits(model, budgets, rows=rows) == ((1 << 20) // (4 * width), (1 << 19) // (4 * width))
    with torch.autocast("cpu", torch.bfloat16):
        assert generation_limits(model, budgets, rows=True)[0] == (1 << 20) // (2 * width)
    assert generation_limits(model, (Budget(tokens=5), Budget(tokens=0)), rows=True) == (5, 0)
    assert min(generation_limits(model, (Budget(), Budget()), rows=True)) > 1000
    assert generation_limits(make_architecture("mamba"), budgets, rows=False)[0] > 1000  # a state that never grows


def test_a_run_keeps_to_budgets_of_memory(tmp_path):
    budgets = {"generation_batch_tokens": "20KiB", "generation_cache_tokens": "auto", "micro_batch_tokens": "300KiB"}
    given = {"max_steps": 4, "rollout_batch_size": 8, "logging_steps": 1}
    logs = []
    for name, settings in (("memory", budgets), ("tokens", {})):
        trainer = make_trainer(tmp_path / name, **given, **settings)
        trainer.train()
        logs.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    assert logs[0] == pytest.approx(logs[1], abs=1e-4)
