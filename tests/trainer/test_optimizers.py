"""Optimizers of transformers, for the policy and for a critic of its own."""

from __future__ import annotations

import pytest
import torch
from transformers.optimization import Adafactor

from tests.helpers.training import make_trainer, weights


@pytest.mark.parametrize(
    ("name", "kind"), [("adafactor", Adafactor), ("sgd", torch.optim.SGD), ("rmsprop", torch.optim.RMSprop)]
)
@pytest.mark.parametrize("critic", ["value_head", "separate"])
def test_the_optimizer_of_the_settings_trains_policy_and_critic(name, kind, critic, tmp_path):
    trainer = make_trainer(
        tmp_path, optim=name, critic=critic, max_steps=4, rollout_batch_size=8, learning_rate=1e-2, max_grad_norm=10.0
    )
    before = weights(trainer)
    trainer.train()
    optimizers = [trainer.optimizer, *([] if trainer.critic is None else [trainer.critic.optimizer])]
    assert all(type(getattr(one, "optimizer", one)) is kind for one in optimizers)
    after = weights(trainer)
    assert any(not torch.equal(after[key], before[key]) for key in before if "value_head" not in key)
    assert all(value.isfinite().all() for value in after.values())


def test_gradients_of_several_processes_are_views_of_what_they_exchange(tmp_path):
    assert make_trainer(tmp_path).accelerator.ddp_handler.gradient_as_bucket_view
