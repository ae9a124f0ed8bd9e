"""Merging steps into one sequence changes neither the loss nor a gradient, on a real (tiny) model."""

import random

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from agent_r1_trainer.losses import LossConfig, critic_loss, policy_loss, step_weights, token_log_probs
from agent_r1_trainer.packing import (
    Layout,
    collate,
    merge_obstacle,
    merge_units,
    micro_batches,
    packing_stats,
)
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory

SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def make_model(kind, dtype):
    torch.manual_seed(0)
    if kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=8))
    else:
        scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        scaling |= {"original_max_position_embeddings": 32, "rope_theta": 10000.0}
        model = LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=scaling))
    model.value_head = torch.nn.Linear(32, 1)
    # Weights of a size that makes attention matter.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8.0)
    return model.to(dtype)


def make_trajectories(seed=0, count=6):
    """Chains of up to 8 steps, some broken by a rewritten context, some with an empty response."""
    rng = random.Random(seed)

    def draw(length):
        return [rng.randrange(60) for _ in range(length)]

    trajectories = []
    for index in range(count):
        steps, prompt = [], draw(rng.randint(1, 12))
        for _ in range(rng.randint(1, 8)):
            response = draw(rng.choice([0, 1, 3, 7]))
            steps.append(Step(prompt, response))
            rewritten = rng.random() < 0.25
            prompt = draw(rng.randint(1, 12)) if rewritten else prompt + response + draw(rng.randint(0, 9))
        trajectories.append(Trajectory(str(index), steps, StopReason.TERMINATED))
    return trajectories


def run(model, trajectories, *, merge=True, token_budget=150, level="sequence", share=slice(None)):
    """Loss and gradients of a share of the units, with the weights of all steps as one mini-batch."""
    layout = Layout(trajectories)
    generator = torch.Generator().manual_seed(1)
    dtype = next(model.parameters()).dtype
    old = torch.randn(layout.num_tokens, generator=generator) * 0.3 - 4.0
    advantages = torch.randn(layout.num_steps, generator=generator)
    returns = torch.randn(layout.num_steps, generator=generator)
    counts = np.array([sum(bool(step.response_ids) for step in t.steps) for t in trajectories])
    tokens = np.array([sum(len(step.response_ids) for step in t.steps) for t in trajectories])
    of = layout.trajectory.numpy()
    weights = torch.as_tensor(step_weights("token_mean", layout.lengths.numpy(), counts[of], tokens[of]))
    value_weights = torch.full((layout.num_steps,), 1.0 / layout.num_steps)
    config = LossConfig(ratio_level=level, beta=0.01, entropy_coef=0.01)
    model.zero_grad()
    total = 0.0
    for units in micro_batches(merge_units(trajectories, merge)[share], token_budget):
        batch = collate(units, trajectories, layout, pad_id=3)
        hidden = model.model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
        logits = model.lm_head(hidden[batch.token_row, batch.token_col - 1])
        logps, entropies = token_log_probs(logits, batch.token_ids, entropy=True)
        values = model.value_head(hidden[batch.value_row, batch.value_col]).squeeze(-1)
        policy, _ = policy_loss(
            config,
            logps,
            batch.read_steps(advantages)[batch.token_step],
            batch.read_steps(weights),
            batch.token_step,
            old_logps=batch.read_tokens(old),
            ref_logps=batch.read_tokens(old),
            entropies=entropies,
        )
        value, _ = critic_loss(config, values, batch.read_steps(returns), batch.read_steps(value_weights))
        loss = policy + 0.5 * value
        loss.backward()
        total += loss.item()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert gradient.dtype == dtype
    return total, gradient


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("kind", ["qwen3", "llama3 rope"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_merged_equals_unmerged(kind, level, attention):
    model = make_model(kind, torch.float32)
    model.set_attn_implementation(attention)
    assert merge_obstacle(model.config, model) is None
    trajectories = make_trajectories()
    assert len(merge_units(trajectories)) < sum(len(t) for t in trajectories)
    merged, gradient = run(model, trajectories, level=level)
    unmerged, expected = run(model, trajectories, merge=False, level=level)
    one_by_one, single = run(model, trajectories, merge=False, token_budget=1, level=level)
    assert merged == pytest.approx(unmerged, rel=1e-5)
    assert unmerged == pytest.approx(one_by_one, rel=1e-5)
    assert expected.norm() > 1e-3
    assert (gradient - expected).norm() < 2e-5 * expected.norm()
    assert (single - expected).norm() < 2e-5 * expected.norm()


def test_every_token_is_computed_once():
    trajectories = make_trajectories(seed=2, count=40)
    groups = micro_batches(merge_units(trajectories), token_budget=2000)
    stats = packing_stats(trajectories, groups)
    assert stats.computed < 1.02 * stats.distinct
    assert stats.unmerged > 2.0 * stats.computed


def test_ranks_add_up():
    """Weights carry the global denominators, so the losses and gradients of two ranks add up to those of one."""
    model, trajectories = make_model("qwen3", torch.float32), make_trajectories(seed=3)
    loss, gradient = run(model, trajectories)
    shares = [run(model, trajectories, share=slice(rank, None, 2)) for rank in range(2)]
    assert sum(part for part, _ in shares) == pytest.approx(loss, rel=1e-5)
    assert (sum(part for _, part in shares) - gradient).norm() < 2e-5 * gradient.norm()


class TestObstacles:
    def test_none(self):
        assert merge_obstacle(Qwen3Config(**SIZES)) is None
        assert merge_obstacle(LlamaConfig(**SIZES)) is None

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "full attention"),
            ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
            ({"attention_dropout": 0.1}, "attention_dropout=0.1"),
            ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "dynamic"),
            ({"attn_implementation": "my_kernel"}, "my_kernel"),
            ({"is_causal": False}, "not causal"),
        ],
    )
    def test_configurations(self, settings, message):
        settings = dict(settings)
        implementation = settings.pop("attn_implementation", None)
        config = Qwen3Config(**{**SIZES, **settings})
        if implementation:
            config._attn_implementation_internal = implementation
        assert message in (merge_obstacle(config) or "")

    def test_sliding_window_without_layer_types(self):
        from transformers import MistralConfig

        assert "sliding window of 8" in (merge_obstacle(MistralConfig(**SIZES, sliding_window=8)) or "")
        assert merge_obstacle(MistralConfig(**SIZES, sliding_window=None)) is None

    def test_router(self):
        from transformers import Qwen3MoeConfig

        assert merge_obstacle(Qwen3MoeConfig(**SIZES)) is None
        config = Qwen3MoeConfig(**SIZES, output_router_logits=True, router_aux_loss_coef=0.01)
        assert "auxiliary loss" in (merge_obstacle(config) or "")

    def test_the_modules_decide_about_dropout_where_there_is_a_model(self):
        model = make_model("qwen3", torch.float32)
        assert merge_obstacle(model.config, model) is None
        model.value_head = torch.nn.Sequential(torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
        assert "value_head.0" in (merge_obstacle(model.config, model) or "")
        model.value_head[0].p = 0.0
        assert merge_obstacle(model.config, model) is None
        model.model.layers[0].self_attn.attention_dropout = 0.2
        assert "self_attn.attention_dropout=0.2" in (merge_obstacle(model.config, model) or "")

    def test_lora_dropout(self):
        import peft

        model = peft.get_peft_model(
            make_model("qwen3", torch.float32), peft.LoraConfig(target_modules=["q_proj"], lora_dropout=0.05)
        )
        assert "lora_dropout" in (merge_obstacle(model.config, model) or "")
