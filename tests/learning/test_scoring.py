"""The scoring pass against the model's own logits, for plain, adapted and copied models."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers.modeling_outputs import CausalLMOutput

from agent_r1_trainer._compat import find_trunk, recompute_activations
from agent_r1_trainer.learning import scoring
from agent_r1_trainer.learning.critic import CriticModel
from agent_r1_trainer.learning.scoring import Reference, attach_scoring, read_rows, score
from agent_r1_trainer.packing import Layout, collate, merge_units, needs_padding_mask
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.architectures import ARCHITECTURES, make_architecture
from tests.helpers.training import make_model


@pytest.fixture
def batch():
    steps = [Step([3, 5], [6, 1]), Step([3, 5, 6, 1, 4, 7], [8]), Step([9, 9, 9], [10, 11, 1])]
    trajectories = [Trajectory("t", steps, StopReason.TERMINATED)]
    return collate(merge_units(trajectories), trajectories, Layout(trajectories), pad_id=0)


def expected(model, batch, temperature):
    with torch.no_grad():
        return whole(model, batch, temperature)


def whole(model, batch, temperature):
    logits = model(batch.input_ids, attention_mask=batch.attention_mask).logits
    logps = (logits / temperature).log_softmax(-1)
    chosen = logps[batch.token_row, batch.token_col - 1]
    entropy = -(chosen.exp() * chosen).sum(-1)
    return chosen.gather(-1, batch.token_ids[:, None]).squeeze(-1), entropy


@pytest.mark.parametrize("kind", ARCHITECTURES)
@pytest.mark.parametrize("chunk", [4096, 2])
def test_scores_are_those_of_the_whole_logits_in_every_architecture(kind, chunk, batch, monkeypatch):
    monkeypatch.setattr(scoring, "CHUNK", chunk)
    monkeypatch.setattr(scoring, "_SMALL", 1)
    model = make_architecture(kind)
    logps, entropies = expected(model, batch, 0.7)
    differentiable = kind != "rwkv"  # whose own backward pass fails in transformers 5
    if differentiable:
        whole(model, batch, 0.7)[0].sum().backward()
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    attach_scoring(model, temperature=0.7, value_head=1)
    scores = score(model, batch, values=True, entropy=True)
    torch.testing.assert_close(scores.logprobs, logps, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(scores.entropies, entropies, atol=1e-5, rtol=1e-5)
    assert scores.values is not None and len(scores.values) == 3
    if differentiable:
        scores.logprobs.sum().backward()
    head = {id(p) for p in model.value_head.parameters()}
    for parameter, gradient in zip((p for p in model.parameters() if id(p) not in head), gradients, strict=True):
        if gradient is not None:
            torch.testing.assert_close(parameter.grad, gradient, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_rows_read_the_same_to_the_last_bit_without_a_mask_of_their_padding(kind, batch):
    model = make_architecture(kind)
    assert not needs_padding_mask(model.config)
    trunk = model.get_submodule(find_trunk(model).name)
    own = batch.attention_mask.bool()
    with torch.no_grad():
        masked = trunk(input_ids=batch.input_ids, attention_mask=batch.attention_mask, use_cache=False)
        found = read_rows(trunk, model.config, batch.input_ids, batch.attention_mask)
        other = read_rows(trunk, model.config, batch.input_ids.where(own, 7), batch.attention_mask)
    assert torch.equal(found[own], masked.last_hidden_state[own])
    assert torch.equal(found[own], other[own])


@pytest.mark.parametrize(
    "changes", [{"is_causal": False}, {"is_encoder_decoder": True}, {"use_bidirectional_attention": "all"}]
)
def test_a_model_whose_positions_see_what_follows_is_told_of_padding(changes, batch):
    model = make_model()
    for name, value in changes.items():
        setattr(model.config, name, value)
    assert needs_padding_mask(model.config)
    given = []
    model.model.register_forward_pre_hook(lambda _, args, kwargs: given.append(kwargs), with_kwargs=True)
    read_rows(model.model, model.config, batch.input_ids, batch.attention_mask)
    assert given[0]["attention_mask"] is batch.attention_mask
    model.config._attn_implementation = "own"  # of a user's, which may do anything
    assert needs_padding_mask(model.config)


@pytest.mark.parametrize("recompute", [False, True])
def test_offloaded_activations_give_the_same_gradients_and_weights_stay_where_they_are(recompute, batch, monkeypatch):
    gradients, sizes = [], []
    copy_ = torch.Tensor.copy_

    def counting(kept, saved, **kwargs):
        sizes.append(saved.nbytes)
        return copy_(kept, saved, **kwargs)

    monkeypatch.setattr(scoring.offloaded.__wrapped__, "__defaults__", (1,))
    for offload in (False, True):
        model = make_model().train()
        attach_scoring(model, temperature=1.0, value_head=1, offload=offload)
        if recompute:
            recompute_activations(model)
        with monkeypatch.context() as patched:
            patched.setattr(torch.Tensor, "copy_", counting)
            scores = score(model, batch, values=True)
        (scores.logprobs.sum() + scores.values.sum()).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))
    hidden = batch.input_ids.numel() * 32 * 4
    assert max(sizes) >= hidden and (len(sizes) < 12 if recompute else len(sizes) > 12)
    assert not any(
        parameter.nbytes == size for size in sizes for parameter in model.parameters() if parameter.dim() == 2
    )
    critics = [CriticModel(make_model(), offload=offload) for offload in (False, True)]
    places = batch.value_positions("step")
    for critic in critics:
        torch.nn.init.ones_(critic.head.linear.weight)
        critic(batch.input_ids, batch.attention_mask, *places).sum().backward()
    first, second = ([parameter.grad for parameter in critic.parameters()] for critic in critics)
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True) if pair[0] is not None)


def test_a_separate_critic_reads_hidden_states_of_any_width():
    batch_ids, mask = torch.tensor([[3, 5, 6]]), torch.ones(1, 3, dtype=torch.long)
    for kind in ("opt", "llama4_text", "trocr"):
        critic = CriticModel(make_architecture(kind))
        assert critic(batch_ids, mask, torch.tensor([0]), torch.tensor([2])).tolist() == [0.0]


def test_a_model_without_hidden_states_to_read_is_refused():
    model = make_model()

    class Other(type(model)):
        def forward(self, input_ids, **kwargs):
            return CausalLMOutput(logits=self.lm_head(self.model.embed_tokens(input_ids)))

    model.__class__ = Other
    with pytest.raises(ValueError, match=r"type 'qwen3' \(Other\) cannot be trained"):
        attach_scoring(model, temperature=1.0)


@pytest.mark.parametrize("chunk", [4096, 2])
def test_entropies_are_computed_only_where_they_are_asked_for(chunk, batch, monkeypatch):
    monkeypatch.setattr(scoring, "CHUNK", chunk)
    monkeypatch.setattr(scoring, "_SMALL", 1)
    model = make_model()
    attach_scoring(model, temperature=0.7)
    scores = score(model, batch, values=False)
    assert scores.entropies is None
    again = score(model, batch, values=False, entropy=True)
    assert torch.equal(again.logprobs, scores.logprobs)
    _, entropies = whole(model, batch, 0.7)
    (gradient,) = torch.autograd.grad(again.entropies.sum(), model.lm_head.weight)
    (reference,) = torch.autograd.grad(entropies.sum(), model.lm_head.weight)
    torch.testing.assert_close(gradient, reference, atol=1e-5, rtol=1e-4)


def test_values_are_read_at_the_last_prompt_token_and_start_at_zero(batch):
    model = make_model()
    attach_scoring(model, temperature=1.0, value_head=1)
    values = score(model, batch, values=True).values
    assert values.tolist() == [0.0, 0.0, 0.0]
    torch.nn.init.normal_(model.value_head.linear.weight)
    values = score(model, batch, values=True).values
    hidden = model.model(input_ids=torch.tensor([[3, 5, 6, 1, 4, 7]])).last_hidden_state[0]
    torch.testing.assert_close(values[:2], model.value_head(hidden[[1, 5]]), atol=1e-5, rtol=1e-5)


def test_values_of_tokens_are_read_where_their_logits_come_from(batch):
    model = make_model()
    attach_scoring(model, temperature=1.0, value_head=1)
    torch.nn.init.normal_(model.value_head.linear.weight)
    values = score(model, batch, values=True, level="token").values
    assert len(values) == len(batch.token_ids) == 6
    first = model.model(input_ids=torch.tensor([[3, 5, 6, 1, 4, 7, 8]])).last_hidden_state[0]
    second = model.model(input_ids=torch.tensor([[9, 9, 9, 10, 11, 1]])).last_hidden_state[0]
    expected = model.value_head(torch.cat([first[[1, 2, 5]], second[[2, 3, 4]]]))
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=1e-5)
    steps = score(model, batch, values=True).values
    torch.testing.assert_close(values[[0, 2, 3]], steps, atol=1e-5, rtol=1e-5)  # a first token has the step's value


@pytest.mark.parametrize("detach", [True, False])
def test_the_value_gradient_reaches_the_trunk_only_if_asked(detach, batch):
    model = make_model()
    attach_scoring(model, temperature=1.0, value_head=1)
    torch.nn.init.normal_(model.value_head.linear.weight)
    score(model, batch, values=True, detach_values=detach).values.sum().backward()
    assert model.value_head.linear.weight.grad is not None
    assert (model.model.embed_tokens.weight.grad is None) == detach


def test_a_deep_copy_scores_with_its_own_weights(batch):
    model = make_model()
    attach_scoring(model, temperature=1.0, value_head=1)
    twin = copy.deepcopy(model)
    before = score(twin, batch, values=True).logprobs.detach()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    assert torch.equal(score(twin, batch, values=True).logprobs, before)


def test_the_model_is_otherwise_as_it_was(batch):
    model = make_model().eval()
    logits = model(batch.input_ids).logits
    attach_scoring(model, temperature=0.5)
    assert torch.equal(model(batch.input_ids).logits, logits)
    ids = torch.tensor([[3, 4, 5]])
    assert model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, do_sample=False).shape[1] > 3


def test_adapters_take_part_and_their_absence_is_the_reference(batch):
    peft = pytest.importorskip("peft")
    model = make_model()
    start, _ = expected(model.eval(), batch, 1.0)
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj", "lm_head"], r=2, lora_alpha=8))
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter)
    logps, _ = expected(adapted, batch, 1.0)
    attach_scoring(adapted, temperature=1.0)
    torch.testing.assert_close(score(adapted, batch, values=False).logprobs, logps, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(Reference(adapted, None).logprobs(batch), start, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(logps, start)
    with pytest.raises(ValueError, match="copy"):
        Reference(make_model(), None)


def test_a_run_without_a_critic_takes_off_the_value_head_of_an_earlier_one():
    model = make_model()
    attach_scoring(model, temperature=1.0, value_head=1)
    attach_scoring(model, temperature=1.0)
    assert not any("value_head" in name for name, _ in model.named_parameters())
    own = torch.nn.Linear(2, 1)
    model.value_head = own  # of the model's own making: not ours to remove
    attach_scoring(model, temperature=1.0)
    assert model.value_head is own
