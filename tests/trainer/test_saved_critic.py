"""The critic is saved beside its policy, and a new run, or the best checkpoint, brings it back."""

from __future__ import annotations

import logging
import shutil

import pytest
import torch

from agent_r1_trainer import StepPOConfig
from agent_r1_trainer.trainer.models import build_models
from tests.helpers.training import CueEnv, make_model, make_trainer, weights

CRITICS = {"value_head": "value_head.safetensors", "separate": "critic.safetensors"}


def critic_of(trainer) -> dict[str, torch.Tensor]:
    return {name: value for name, value in weights(trainer).items() if "value_head" in name or "critic." in name}


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("adapted", [False, True])
def test_a_new_run_starts_with_the_critic_that_was_saved(critic, adapted, tmp_path):
    peft = pytest.importorskip("peft")
    adapters = {"peft_config": peft.LoraConfig(target_modules=["q_proj"], r=2)} if adapted else {}
    first = make_trainer(tmp_path / "first", max_steps=4, critic=critic, **adapters)
    first.train()
    first.save_model(str(tmp_path / "saved"))
    files = {path.name for path in (tmp_path / "saved").iterdir()}
    assert files & set(CRITICS.values()) == {CRITICS[critic]} and "critic_optimizer.pt" not in files
    base = tmp_path / "saved"
    if adapted:  # adapters go onto the model they came from; the critic's lie beside them
        base = tmp_path / "base"
        make_model().save_pretrained(base)
        shutil.copy(tmp_path / "saved" / CRITICS[critic], base)
    second = make_trainer(tmp_path / "second", model=str(base), max_steps=4, critic=critic, **adapters)
    if second.value_head is None:
        loaded = {f"critic.{name}": p for name, p in second._models.critic.named_parameters()}
    else:
        loaded = critic_of(second)
    saved = critic_of(first)
    assert set(loaded) == set(saved) and any(value.abs().sum() > 0 for name, value in saved.items() if "head" in name)
    assert all(torch.equal(loaded[name], value) for name, value in saved.items())
    second.train()


@pytest.mark.parametrize("critic", CRITICS)
def test_the_best_checkpoint_brings_its_critic_back(critic, tmp_path):
    trainer = make_trainer(
        tmp_path, max_steps=12, critic=critic, eval_env=CueEnv, eval_strategy="steps", eval_steps=4, eval_episodes=2,
        save_strategy="steps", save_steps=4, load_best_model_at_end=True, metric_for_best_model="eval_reward",
    )  # fmt: skip
    values = iter([0.0, 5.0, 1.0, 0.0])  # before the first update, then at 4 (the best), 8 and 12
    run = trainer._evaluator.run
    trainer._evaluator.run = lambda *a, **k: ({**run(*a, **k)[0], "reward": next(values)}, [])
    trainer.train()
    assert trainer.state.best_model_checkpoint.endswith("checkpoint-4")
    stopped = make_trainer(tmp_path / "stopped", max_steps=4, critic=critic)
    stopped.train()
    best = critic_of(stopped)
    assert best and all(torch.equal(critic_of(trainer)[name], value) for name, value in best.items())


def test_a_critic_of_another_kind_is_left_with_a_warning(tmp_path, caplog):
    other = make_trainer(tmp_path / "other", max_steps=4, model=make_model(width=16), critic="separate")
    other.save_model(str(tmp_path / "saved"))
    make_model().save_pretrained(tmp_path / "model")
    shutil.copy(tmp_path / "saved" / "critic.safetensors", tmp_path / "model")
    with caplog.at_level(logging.WARNING, "agent_r1_trainer"):
        trainer = make_trainer(tmp_path, max_steps=4, model=str(tmp_path / "model"), critic="separate")
    assert "does not fit this run's critic" in caplog.text and "embed_tokens.weight" in caplog.text
    policy = dict(trainer.model.model.named_parameters())
    assert all(torch.equal(p, policy[name]) for name, p in trainer._models.critic.trunk.named_parameters())


def built(tmp_path, model=None, **kwargs):
    from tests.helpers.training import make_tokenizer

    config = StepPOConfig(str(tmp_path), use_cpu=True, report_to=[], **kwargs)
    return build_models(make_model() if model is None else model, config, make_tokenizer())


def test_what_the_model_does_not_allow_is_said_once(tmp_path, caplog):
    model = make_model()
    model.config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    with caplog.at_level(logging.WARNING, "agent_r1_trainer"):
        models = built(tmp_path, model, max_prompt_length=1000, max_completion_length=56)
        assert not models.merge and built(tmp_path, max_prompt_length=200, max_completion_length=56).merge
        built(tmp_path, model=None, max_prompt_length=200, max_completion_length=56, merge_steps=False)
    reasons, limits = [record.getMessage() for record in caplog.records]
    assert "sequence of its own" in reasons and "rotary embedding (dynamic)" in reasons
    assert "prompts may have 200 tokens, not max_prompt_length=1000" in limits


def test_a_first_prompt_that_is_too_long_names_the_limit(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=4, max_prompt_length=3)
    with pytest.raises(RuntimeError, match=r"has 4 tokens, more than the 3 that max_prompt_length and the model's"):
        trainer.train()
