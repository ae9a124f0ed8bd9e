"""Muon beside AdamW: every parameter has one optimizer, and the rates go up and down together."""

import pytest
import torch

from agent_r1_trainer.tiny_policy.architecture import TinyArchitecture, build_model
from agent_r1_trainer.tiny_policy.cloning import clip_and_step, make_optimizers, set_rate
from agent_r1_trainer.tiny_policy.household.demonstrations import environment_words
from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer

SMALL = TinyArchitecture(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=32)


@pytest.fixture
def model():
    return build_model(SMALL, build_tokenizer(environment_words(), commands=()), seed=0)


def held(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def test_muon_has_the_matrices_of_the_layers_and_adamw_the_rest(model):
    adamw, muon = make_optimizers(model, 1e-3, 0.02)
    assert sorted(map(id, held(adamw) + held(muon))) == sorted(map(id, model.parameters()))
    matrices = {name for name, parameter in model.named_parameters() if any(parameter is other for other in held(muon))}
    assert len(matrices) == 2 * 7 and all("layers" in name and "proj" in name for name in matrices)
    (alone,) = make_optimizers(model, 1e-3, None)
    assert len(held(alone)) == len(list(model.parameters()))


def test_rates_keep_their_proportion(model):
    optimizers = make_optimizers(model, 1e-3, 0.02)
    set_rate(optimizers, 5e-4)
    assert [group["lr"] for optimizer in optimizers for group in optimizer.param_groups] == [5e-4, pytest.approx(0.01)]


def test_a_step_moves_every_matrix_and_goes_downhill(model):
    ids = torch.randint(20, (4, 30), generator=torch.Generator().manual_seed(0))
    optimizers = make_optimizers(model, 1e-3, 0.02)
    before = [parameter.detach().clone() for parameter in held(optimizers[1])]

    def loss():
        return model(ids, labels=ids).loss

    first = loss()
    clip_and_step(optimizers, model, first, 1.0)
    assert not any(torch.equal(old, new) for old, new in zip(before, held(optimizers[1]), strict=True))
    assert loss() < first


def test_an_old_pytorch_is_told_apart(model, monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ValueError, match=r"needs PyTorch 2\.9 or later, this is"):
        make_optimizers(model, 1e-3, 0.02)
