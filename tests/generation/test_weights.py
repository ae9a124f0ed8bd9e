"""What a foreign sampler is sent, against PEFT's own merge and transformers' own names."""

from __future__ import annotations

import copy

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

from agent_r1_trainer import _compat
from agent_r1_trainer.generation.weights import merged_weights, untied, weights_mark
from agent_r1_trainer.learning.scoring import attach_scoring
from tests.helpers.architectures import ARCHITECTURES, make_architecture
from tests.helpers.training import make_model


def lora(tied: bool = True, **kwargs):
    torch.manual_seed(1)
    settings = {"target_modules": ["q_proj", "down_proj"], **kwargs}
    model = get_peft_model(make_model(tied=tied), LoraConfig(r=4, task_type="CAUSAL_LM", **settings))
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.1)
    return model


@pytest.mark.parametrize("tied", [True, False])
def test_the_weights_of_a_model_are_its_own_without_the_value_head_and_tied_ones_once(tied):
    model = make_model(tied=tied)
    expected = dict(model.named_parameters())
    attach_scoring(model, temperature=1.0, value_head=1)
    found = {name: tensor.clone() for name, tensor in merged_weights(model)}
    assert found.keys() == expected.keys() and ("lm_head.weight" in found) is not tied
    assert all(torch.equal(found[name], expected[name]) for name in found)


@pytest.mark.parametrize("kind", [{}, {"use_dora": True}, {"modules_to_save": ["lm_head"]}], ids=str)
def test_adapters_are_merged_as_peft_does_and_the_policy_stays_as_it_was_to_the_last_bit(kind):
    model = lora(tied=False, **kind)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    mark = weights_mark(model)
    found = dict(merged_weights(model))  # whoever packs several tensors reads them later
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before) and mark == weights_mark(model)
    merged = dict(copy.deepcopy(model).merge_and_unload().named_parameters())
    assert found.keys() == merged.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, merged[name], atol=1e-6, rtol=1e-6)
    base = dict(make_model(tied=False).named_parameters())
    assert sum(not torch.equal(tensor, base[name]) for name, tensor in found.items()) >= 4


def test_weights_are_restored_when_sending_breaks_off():
    model = lora()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sending = merged_weights(model)
    for name, _ in sending:
        if "q_proj" in name:
            break
    sending.close()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_floating_point_weights_are_cast():
    assert {tensor.dtype for _, tensor in merged_weights(lora(), torch.bfloat16)} == {torch.bfloat16}


def test_a_step_of_an_optimizer_and_a_loaded_checkpoint_change_the_mark():
    model = make_model()
    marks = [weights_mark(model)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sum(parameter.sum() for parameter in model.parameters()).backward()
    assert weights_mark(model) == marks[0]
    optimizer.step()
    marks.append(weights_mark(model))
    model.load_state_dict(make_model(1).state_dict())
    marks.append(weights_mark(model))
    assert len(set(marks)) == 3


IDS = torch.tensor([[3, 8, 9, 4, 7, 2]])
ENDS = {
    "embeddings": {"target_modules": ["embed_tokens", "q_proj"]},
    "head": {"target_modules": ["lm_head", "q_proj"]},
    "both": {"target_modules": ["lm_head", "embed_tokens", "q_proj"]},
    "saved embeddings": {"modules_to_save": ["embed_tokens"]},
    "saved head": {"modules_to_save": ["lm_head"]},
}


@pytest.mark.parametrize("kind", [*ENDS.values(), {"trainable_token_indices": [3, 4]}, {}], ids=str)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("tied", [True, False])
def test_embeddings_and_head_arrive_as_the_policy_has_them_or_are_refused(tied, together, kind):
    model = lora(tied, **{"target_modules": ["q_proj"], **kind, "ensure_weight_tying": together}).eval()
    if untied(model):
        assert tied and not together and kind in ENDS.values()
        return
    received = make_model(seed=9, tied=tied).eval()
    found = {name: tensor.clone() for name, tensor in merged_weights(model)}
    own = dict(received.named_parameters())
    assert found.keys() == own.keys()
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)
        torch.testing.assert_close(received(input_ids=IDS).logits, model(input_ids=IDS).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ENDS.values(), ids=ENDS)
def test_what_no_tied_model_can_hold_is_named_with_the_way_out(kind):
    problem = untied(lora(True, **{"target_modules": ["q_proj"], **kind}))
    assert "ensure_weight_tying=True" in problem and "target_modules" in problem


def test_buffers_of_a_saved_model_are_sent_too_and_not_cast():
    model = make_architecture("deepseek_v3")
    bias = "model.layers.1.mlp.gate.e_score_correction_bias"
    model.get_buffer(bias).uniform_()
    found = {name: tensor for name, tensor in merged_weights(model, torch.bfloat16)}
    assert found.keys() == model.state_dict().keys()
    assert torch.equal(found[bias], model.get_buffer(bias)) and found[bias].dtype is torch.float32
    tied = make_architecture("gemma2")
    assert {name for name, _ in merged_weights(tied)} == tied.state_dict().keys() - {"lm_head.weight"}


SPLIT = {"head_dim": 8, "num_layers_per_stack": 1, "num_key_value_heads": 4}
"""Of a kind whose projections are one tensor in a folder, and several in memory."""


def saved(model, folder):
    model.save_pretrained(folder)
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


@pytest.mark.parametrize(("kind", "sizes"), [*((kind, {}) for kind in ARCHITECTURES), ("hrm_text", SPLIT)])
def test_weights_have_the_names_and_shapes_of_saved_models(kind, sizes, tmp_path):
    model = make_architecture(kind, **sizes)
    expected = saved(model, tmp_path)
    found = list(merged_weights(model, as_saved=True))
    assert sorted(name for name, _ in found) == sorted(expected)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found)


def test_adapters_on_a_part_of_what_is_saved_as_one_tensor_are_merged_into_their_part(tmp_path):
    settings = LoraConfig(r=4, target_modules=["up_proj", "q_proj"], init_lora_weights=False)
    model = get_peft_model(make_architecture("hrm_text", **SPLIT), settings)
    found = list(merged_weights(model, as_saved=True))
    expected = saved(copy.deepcopy(model).merge_and_unload(), tmp_path)
    assert sorted(name for name, _ in found) == sorted(expected)
    for name, tensor in found:
        torch.testing.assert_close(tensor, expected[name], atol=1e-6, rtol=1e-6)


def test_what_saved_models_hold_is_looked_up_once_and_not_for_every_tensor(monkeypatch):
    model = make_architecture("qwen3")
    calls = []
    revert = _compat.revert_weight_conversion
    monkeypatch.setattr(_compat, "revert_weight_conversion", lambda *given: calls.append(given) or revert(*given))
    assert len(list(merged_weights(model, as_saved=True))) > 20 and len(calls) == 1
