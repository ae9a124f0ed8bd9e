"""Rows without padding, one behind the other, as flash attention reads them; here in plain torch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from agent_r1_trainer._compat import find_trunk, recompute_activations
from agent_r1_trainer.learning.critic import CriticModel
from agent_r1_trainer.learning.scoring import attach_scoring, leaves_padding_out, score
from agent_r1_trainer.packing import Layout, collate, merge_units
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.architectures import ARCHITECTURES, make_architecture

READ_SO = (
    *("llama", "qwen3", "cohere", "granite", "phi", "phi3", "gptj", "gpt2", "gpt_neox", "opt", "olmo2", "mixtral"),
    *("qwen3_moe", "deepseek_v3"),
)


@pytest.fixture
def batch():
    steps = [Step([3, 5], [6, 1]), Step([3, 5, 6, 1, 4, 7], [8]), Step([9, 9, 9], [10, 11, 1]), Step([4], [2])]
    trajectories = [Trajectory("t", steps, StopReason.TERMINATED)]
    return collate(merge_units(trajectories), trajectories, Layout(trajectories), pad_id=0)


def bounded(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    """Causal attention within the bounds that flash attention would get, of a single row that has no padding."""
    assert attention_mask is None and len(query) == 1
    assert torch.equal(kwargs["cu_seq_lens_q"], kwargs["cu_seq_lens_k"])
    assert kwargs["cu_seq_lens_q"].dtype is torch.int32
    bounds = kwargs["cu_seq_lens_q"].tolist()
    assert bounds[-1] == query.size(2) == key.size(2)
    spans = list(zip(bounds, bounds[1:], strict=False))
    assert kwargs["max_length_q"] == kwargs["max_length_k"] == max(last - first for first, last in spans)
    parts = [
        scaled_dot_product_attention(
            *(states[:, :, first:last] for states in (query, key, value)),
            is_causal=True, scale=scaling, enable_gqa=True,
        )
        for first, last in spans
    ]  # fmt: skip
    return torch.cat(parts, dim=2).transpose(1, 2), None


def flat(model):
    """A copy that reads as flash attention would."""
    model = copy.deepcopy(model)
    model.config._attn_implementation = "flash_attention_2"
    return model


@pytest.fixture
def plain_flash(monkeypatch):
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "flash_attention_2", bounded)


def gradients(model):
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", READ_SO)
@pytest.mark.parametrize("recompute", [False, True])
def test_scores_and_gradients_are_those_of_padded_rows(kind, recompute, batch, plain_flash):
    model = make_architecture(kind)
    other, shapes, found = flat(model), [], []
    for each in (model, other):
        attach_scoring(each, temperature=0.7, value_head=1)
        torch.nn.init.ones_(each.value_head.linear.weight)
    if recompute:
        other.train()  # activations are recomputed in training mode only; there is no dropout
        recompute_activations(other)
    other.get_submodule(find_trunk(other).name).register_forward_pre_hook(
        lambda _, args, kwargs: shapes.append(tuple((args or [kwargs["input_ids"]])[0].shape)), with_kwargs=True
    )
    shapes.clear()
    for each in (model, other):
        scores = score(each, batch, values=True, entropy=True)
        (scores.logprobs.sum() + scores.values.square().sum() + scores.entropies.sum()).backward()
        found.append(scores)
    assert shapes[0] == (1, int(batch.attention_mask.sum())) and batch.input_ids.shape[0] > 2
    for name in ("logprobs", "values", "entropies"):
        first, second = (getattr(scores, name) for scores in found)
        torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in gradients(model).values())
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradients(other)[name] / largest, gradient / largest, atol=1e-5, rtol=0)


def test_a_separate_critic_reads_rows_the_same_way(batch, plain_flash):
    model = make_architecture("qwen3")
    found = []
    for policy in (model, flat(model)):
        critic = CriticModel(policy)
        torch.nn.init.ones_(critic.head.linear.weight)
        found.append(critic(batch.input_ids, batch.attention_mask, *batch.value_positions("step")))
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_trunk_that_does_not_say_whether_it_remembers_is_read_with_padding(kind, monkeypatch):
    model = flat(make_architecture(kind))
    trunk = model.get_submodule(find_trunk(model).name)
    for mark in ("_is_stateful", "_supports_attention_backend"):
        assert leaves_padding_out(trunk, model.config)
        with monkeypatch.context() as patch:
            for cls in type(trunk).__mro__:
                if mark in vars(cls):
                    patch.delattr(cls, mark)
            assert not leaves_padding_out(trunk, model.config)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_only_bounded_attention_in_every_layer_and_nothing_else_reads_rows_so(kind):
    model = make_architecture(kind)
    trunk = model.get_submodule(find_trunk(model).name)
    for implementation in ("sdpa", "eager", "flex_attention", "paged|sdpa", "own"):
        model.config._attn_implementation = implementation
        assert not leaves_padding_out(trunk, model.config)
    for implementation in ("flash_attention_2", "flash_attention_3"):
        model.config._attn_implementation = implementation
        assert leaves_padding_out(trunk, model.config) == (kind in READ_SO)
