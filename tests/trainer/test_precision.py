"""Frozen weights in 16 bits: who gets them, what they may change, and what is refused about fewer bits."""

from __future__ import annotations

import importlib.util
import logging

import pytest
import torch

from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.trainer import models, precision
from agent_r1_trainer.trainer.models import build_models, load_model
from agent_r1_trainer.trainer.precision import frozen_dtype, store_frozen
from tests.helpers.training import make_model, make_tokenizer, make_trainer


def adapted(model):
    peft = pytest.importorskip("peft")
    return peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=4, lora_alpha=8))


def test_only_a_gpu_that_computes_in_bfloat16_keeps_frozen_weights_in_it():
    assert frozen_dtype("cuda", bf16=True) == torch.bfloat16
    assert {frozen_dtype("cuda", bf16=False), frozen_dtype("cpu", bf16=True)} == {torch.float32}


def test_frozen_weights_are_rounded_and_trained_ones_are_not():
    policy = adapted(make_model())
    assert not store_frozen(policy, torch.float32, "policy")
    assert store_frozen(policy, torch.bfloat16, "policy")
    types = {parameter.requires_grad: parameter.dtype for parameter in policy.parameters()}
    assert types == {True: torch.float32, False: torch.bfloat16}
    assert policy.get_base_model().lm_head.weight is policy.get_base_model().model.embed_tokens.weight


def test_weights_that_rounding_would_change_too_much_stay_whole_and_it_is_said(caplog, monkeypatch):
    monkeypatch.setattr(precision, "_LIMIT", 1e-12)
    model = make_model().requires_grad_(False)
    with torch.no_grad():
        model.lm_head.weight.mul_(30.0)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    with caplog.at_level(logging.WARNING):
        assert not store_frozen(model, torch.bfloat16, "reference")
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    [message] = [record.getMessage() for record in caplog.records]
    assert "weights of the reference stay in float32: in bfloat16 its distributions would be off by a KL of" in message


def test_a_run_learns_beside_a_reference_and_a_base_of_16_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "frozen_dtype", lambda *args, **kwargs: torch.bfloat16)  # as on a GPU
    for name, model in (("whole", make_model()), ("adapters", adapted(make_model()))):
        trainer = make_trainer(
            tmp_path / name, model=model, beta=0.1, bf16=True, max_steps=4, rollout_batch_size=8, logging_steps=1
        )
        copy = trainer._models.reference.copy
        assert {parameter.dtype for parameter in copy.parameters() if "lora" not in str(parameter)} >= {torch.bfloat16}
        trainer.train()
        log = [entry for entry in trainer.state.log_history if "kl" in entry]
        assert log[0]["kl"] < 1e-3 and len(log) == 4


def test_quantised_weights_need_their_package_and_adapters(tmp_path):
    config = StepPOConfig(str(tmp_path), use_cpu=True)
    if importlib.util.find_spec("bitsandbytes") is None:
        with pytest.raises(ImportError, match=r"quantization_config in model_init_kwargs needs .* bitsandbytes"):
            load_model(str(tmp_path), {"quantization_config": {"load_in_4bit": True}})
    model = make_model()
    model.is_quantized = True
    with pytest.raises(ValueError, match="quantised weights cannot be trained: add adapters"):
        build_models(model, config, make_tokenizer())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"torch_compile": True}, "each would be compiled anew"),
        ({"use_liger_kernel": True}, "read in blocks already"),
        ({"activation_offloading": True}, "where this run has them"),
    ],
)
def test_what_saves_nothing_here_is_refused_with_the_reason(settings, reason, tmp_path):
    with pytest.raises(ValueError, match=reason):
        StepPOConfig(str(tmp_path), use_cpu=True, **settings)
