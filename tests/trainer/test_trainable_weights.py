"""Weights too coarse to be trained are refused, however the model comes."""

from __future__ import annotations

import pytest
import torch
import yaml

from agent_r1_trainer.sft.run import warm_start
from agent_r1_trainer.tiny_policy import CHECKPOINT, load_tiny_policy
from agent_r1_trainer.train import train_command
from agent_r1_trainer.train.recipes import find_recipe
from agent_r1_trainer.trainer.models import check_trainable_weights
from tests.helpers.training import make_model, make_tokenizer, make_trainer

BFLOAT16 = {"dtype": "bfloat16"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("setting", [{}, {"critic": "separate"}, {"advantage_estimator": "grpo", "num_generations": 2}])
def test_a_model_of_16_bits_is_refused_with_the_way_out(dtype, setting, tmp_path):
    with pytest.raises(ValueError, match=r"trainable parameters are \w*float16 \(model\.embed.*bf16=True.*peft_config"):
        make_trainer(tmp_path, model=make_model().to(dtype), **setting)


def test_one_coarse_weight_among_others_is_named():
    model = make_model(tied=False)
    model.lm_head.to(torch.bfloat16)
    with pytest.raises(ValueError, match=r"1 of the model's \d+ .* \(lm_head\.weight\)"):
        check_trainable_weights(model)
    model.lm_head.requires_grad_(False)
    check_trainable_weights(model)
    check_trainable_weights(model.double())


def test_a_name_with_a_dtype_is_refused_in_training_and_in_a_warm_start(tmp_path):
    rows = [{"prompt": [{"role": "user", "content": "left"}], "completion": [{"role": "assistant", "content": "a"}]}]
    make_model().save_pretrained(tmp_path / "model")
    make_tokenizer().save_pretrained(tmp_path / "model")
    for name in ("dtype", "torch_dtype"):
        with pytest.raises(ValueError, match="leave the dtype out of model_init_kwargs"):
            make_trainer(tmp_path / "run", model=str(tmp_path / "model"), model_init_kwargs={name: "bfloat16"})
    with pytest.raises(ValueError, match="leave the dtype out of model_init_kwargs"):
        warm_start(str(tmp_path / "model"), rows, tmp_path / "warm", model_init_kwargs=BFLOAT16, use_cpu=True)


def test_the_command_line_says_it_in_a_line(tmp_path, capsys):
    settings = {**yaml.safe_load(find_recipe("demo").read_text(encoding="utf-8")), "model_init_kwargs": BFLOAT16}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    assert train_command(config=tmp_path / "r.yaml", preset=None, seed=0, out=tmp_path / "run") == 2
    error = capsys.readouterr().err.strip()
    assert "trainable parameters are bfloat16" in error and "\n" not in error and "`peft`" in error


def test_adapters_of_32_bits_train_on_frozen_weights_of_16(tmp_path):
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=4, task_type="CAUSAL_LM")
    trainer = make_trainer(tmp_path, model=make_model().bfloat16(), peft_config=lora, max_steps=4)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    after = dict(trainer.model.named_parameters())
    assert any(not torch.equal(before[name], p) for name, p in after.items() if "lora_" in name)
    assert all(torch.equal(before[name], p) for name, p in after.items() if p.dtype == torch.bfloat16)


def test_adapters_and_saved_modules_of_16_bits_are_refused(tmp_path):
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(target_modules=["q_proj"], r=4)
    coarse = peft.get_peft_model(make_model().bfloat16(), lora, autocast_adapter_dtype=False)
    with pytest.raises(ValueError, match=r"bfloat16 .*lora_A.* on a model or an adapter of your own"):
        make_trainer(tmp_path, model=coarse)
    whole = peft.LoraConfig(target_modules=["q_proj"], modules_to_save=["lm_head"], r=4)
    with pytest.raises(ValueError, match="modules_to_save"):
        make_trainer(tmp_path, model=make_model(tied=False).bfloat16(), peft_config=whole)


def test_the_shipped_policies_are_fine():
    check_trainable_weights(load_tiny_policy(CHECKPOINT)[0])
