"""One optimizer step: invariances, clipping, and what a number that is not finite does."""

from __future__ import annotations

import math

import pytest
import torch

from tests.helpers.training import CueEnv, make_model, make_trainer, measured, weights


def gradients(folder, *, scale: float, random_head: bool, **kwargs) -> list[dict[str, torch.Tensor]]:
    """Gradients of the policy in the updates of a first rollout."""
    found: list[dict[str, torch.Tensor]] = []
    trainer = make_trainer(folder, env=lambda: CueEnv(scale=scale), max_steps=4, **kwargs)
    if random_head:
        torch.manual_seed(3)
        torch.nn.init.normal_(trainer.value_head.linear.weight, std=0.1)
    step = trainer.training_step

    def spy(*args, **kw):
        loss = step(*args, **kw)
        named = trainer.model.named_parameters()
        found.append({name: p.grad.clone() for name, p in named if "value_head" not in name})
        return loss

    trainer.training_step = spy
    trainer.train()
    return found


@pytest.mark.parametrize(
    "kwargs",
    [
        {"random_head": True},
        {"random_head": False, "critic": "separate"},
        {"random_head": True, "value_grad_to_trunk": "detach"},
    ],
    ids=["value head", "separate", "detached"],
)
def test_ten_times_the_reward_leaves_the_policy_gradients_equal(kwargs, tmp_path):
    once = gradients(tmp_path / "1", scale=1.0, **kwargs)
    tenfold = gradients(tmp_path / "10", scale=10.0, **kwargs)
    assert len(once) == 4
    for first, second in zip(once, tenfold, strict=True):
        size = max(float(value.norm()) for value in first.values())
        assert size > 0
        assert max(float((first[name] - second[name]).norm()) for name in first) <= 1e-5 * size


def test_policy_and_critic_are_clipped_apart(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=4, logging_steps=1, max_grad_norm=1e-3, critic_max_grad_norm=5e-3)
    norms = []
    step = trainer.training_step

    def spy(*args, **kw):
        loss = step(*args, **kw)
        head = [p.grad.norm() for p in trainer.value_head.parameters()]
        rest = [p.grad.norm() for n, p in trainer.model.named_parameters() if "value_head" not in n]
        norms.append((float(torch.stack(rest).norm()), float(torch.stack(head).norm())))
        return loss

    trainer.training_step = spy
    trainer.train()
    assert all(policy == pytest.approx(1e-3, rel=1e-3) for policy, _ in norms)
    assert all(critic == pytest.approx(5e-3, rel=1e-3) for _, critic in norms)
    assert all(entry["grad_norm"] > 1e-2 for entry in measured(trainer) if "grad_norm" in entry)


@pytest.mark.parametrize("critic", ["value_head", "separate"])
@pytest.mark.parametrize("where", ["policy", "critic"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_leaves_everything_untouched(critic, where, value, tmp_path):
    trainer = make_trainer(tmp_path, critic=critic, weight_decay=0.1, max_steps=8, logging_steps=1)
    states = []
    step = trainer.training_step

    def plant(gradient: torch.Tensor) -> torch.Tensor:
        if len(states) == 3:  # in the third update
            gradient = gradient.clone()
            gradient.view(-1)[0] = value
        return gradient

    def spy(*args, **kw):
        if not states:
            head = trainer.value_head or trainer.critic.model.head
            (trainer.model.model.norm.weight if where == "policy" else head.linear.weight).register_hook(plant)
        states.append((weights(trainer), optimizer_state(trainer)))
        return step(*args, **kw)

    trainer.training_step = spy
    trainer.train()
    for index, same in ((1, False), (2, True), (3, False)):
        (before, moments), (after, later) = states[index], states[index + 1]
        assert all(torch.equal(before[name], after[name]) for name in before) == same, index
        assert all(torch.equal(a, b) for a, b in zip(moments, later, strict=True)) == same, index
    log = [entry for entry in measured(trainer) if "skipped_updates" in entry]
    assert [entry["skipped_updates"] for entry in log] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert all(math.isfinite(float(p.detach().sum())) for p in trainer.model.parameters())


def optimizer_state(trainer) -> list[torch.Tensor]:
    optimizers = [trainer.optimizer] + ([trainer.critic.optimizer] if trainer.critic is not None else [])
    return [t.clone() for o in optimizers for state in o.state_dict()["state"].values() for t in state.values()]


def test_a_loss_that_is_not_finite_is_skipped_and_past_a_limit_the_run_stops_and_names_the_batch(tmp_path):
    model = make_model()
    with torch.no_grad():
        model.model.layers[0].mlp.gate_proj.weight[0, 0] = math.nan
    trainer = make_trainer(tmp_path, model=model, max_steps=8, max_skipped_updates=2)
    with pytest.raises(RuntimeError, match=r"3 updates in a row .* update 2 of rollout 0 .*task-\d"):
        trainer.train()


class Unreliable(CueEnv):
    """Fails in the episodes with these numbers, counted over all copies."""

    started, broken = 0, range(0)

    def reset(self, *, seed=None, options=None):
        type(self).started += 1
        if self.started in self.broken:
            raise ConnectionError("the server is gone")
        return super().reset(seed=seed, options=options)


def test_a_rollout_without_any_episode_is_skipped_and_many_of_them_stop_the_run(tmp_path):
    Unreliable.started, Unreliable.broken = 0, range(17, 33)  # the second rollout of three
    trainer = make_trainer(tmp_path, env=Unreliable, max_steps=12, logging_steps=4, max_masked_ratio=1.0)
    seen = []
    step = trainer.training_step
    trainer.training_step = lambda *args: (seen.append(weights(trainer)), step(*args))[1]
    trainer.train()
    log = [entry for entry in measured(trainer) if "skipped_updates" in entry]
    assert [entry["masked_ratio"] for entry in log] == [0.0, 1.0, 0.0]
    assert log[-1]["skipped_updates"] == 4.0 and "reward" not in log[1]
    still = [all(torch.equal(a[name], b[name]) for name in a) for a, b in zip(seen, seen[1:], strict=False)]
    assert still == [False] * 4 + [True] * 4 + [False] * 3

    Unreliable.started, Unreliable.broken = 0, range(17, 999)
    with pytest.raises(RuntimeError, match=r"(?s)4 updates in a row .*rollout 1 .*the server is gone"):
        make_trainer(tmp_path, env=Unreliable, max_steps=12, max_skipped_updates=3, max_masked_ratio=1.0).train()
    Unreliable.started, Unreliable.broken = 0, range(999)
    with pytest.raises(RuntimeError, match=r"rollout 0, the first, .*\n  16 x ConnectionError: the server is gone"):
        make_trainer(tmp_path, env=Unreliable, max_steps=12, max_masked_ratio=1.0).train()


@pytest.mark.parametrize("merge", [True, False])
def test_the_first_gradient_is_the_one_computed_plainly(merge, tmp_path):
    """One update, a critic that says 0: whitened discounted returns times the mean gradient of each reply's tokens."""
    gamma, trajectories, found = 0.9, [], {}
    sizes = {"num_ppo_epochs": 1, "num_minibatches": 1, "max_steps": 1, "rollout_batch_size": 12}
    trainer = make_trainer(tmp_path, gamma=gamma, max_grad_norm=0.0, merge_steps=merge, temperature=0.7, **sizes)
    twin = make_model()
    run, step = trainer.flow.run, trainer.training_step

    def keep(*args, **kw):
        trajectories.extend(run(*args, **kw))
        return trajectories

    def look(*args):
        loss = step(*args)
        found.update({name: p.grad.clone() for name, p in trainer.model.named_parameters() if "value_head" not in name})
        return loss

    trainer.flow.run, trainer.training_step = keep, look
    trainer.train()

    returns, logps = [], []
    for trajectory in trajectories:
        for turn, item in enumerate(trajectory.steps):
            later = trajectory.steps[turn:]
            returns.append(sum(gamma**lag * other.reward for lag, other in enumerate(later)))
            logits = twin(torch.tensor([item.prompt_ids + item.response_ids])).logits[0] / 0.7
            chosen = logits[len(item.prompt_ids) - 1 : -1].log_softmax(-1)
            logps.append(chosen.gather(-1, torch.tensor(item.response_ids)[:, None]).mean())
    scaled = torch.tensor(returns, dtype=torch.float64)  # their mean, which the critic says, drops out
    advantages = (scaled - scaled.mean()) / scaled.std(correction=0)
    (-(advantages.float() * torch.stack(logps)).mean()).backward()
    assert len(returns) > 20
    for name, parameter in twin.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, atol=2e-6, rtol=1e-4)
