"""A critic learns as well where rewards are large, or far from 0, and keeps what it says from run to run."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from agent_r1_trainer import StepPOConfig
from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.flows import AgentFlowBase, FlowTimes
from agent_r1_trainer.learning.scoring import ValueHead, score
from agent_r1_trainer.packing import Layout, collate, merge_units
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.benchmarks import load_benchmark
from tests.helpers.training import WORDS, CueEnv, StallEnv, make_model, make_tokenizer, make_trainer

CRITICS = {"full": {}, "detached": {"value_grad_to_trunk": "detach"}, "separate": {"critic": "separate"}}
FILES = {"value_head": "value_head.safetensors", "separate": "critic.safetensors"}


class Fixed(AgentFlowBase):
    """The same replies whatever the policy, each rollout others, paid as it is told."""

    def __init__(self, factor: float, offset: float) -> None:
        self.times, self.rollouts = FlowTimes(), 0
        self.factor, self.offset = factor, offset

    @property
    def num_tasks(self) -> int:
        return 12

    def run(self, assignments, *args, **kwargs):
        rng = np.random.default_rng(self.rollouts)
        self.rollouts += 1
        found = []
        for assignment in assignments:
            prompt, steps = rng.integers(3, len(WORDS), size=3).tolist(), []
            for turn in range(3):
                reply = rng.integers(3, len(WORDS), size=2).tolist()
                steps.append(Step(list(prompt), reply, reward=self.factor * float(rng.random() < 0.4), turn=turn))
                prompt = prompt + reply + rng.integers(3, len(WORDS), size=2).tolist()
            steps[-1].reward += self.offset
            steps[-1].terminated = True
            found.append(Trajectory("", steps, StopReason.TERMINATED, group=assignment.group, sample=assignment.sample))
        return found


def watched(folder: Path, factor: float, offset: float, **kwargs) -> list[dict[str, torch.Tensor]]:
    """Advantages, targets, old values and gradients of each of two rollouts' two updates.

    Plain gradient descent: Adam would make a step of full size out of a gradient that is rounding.
    """
    trainer = make_trainer(
        folder, env=None, flow=Fixed(factor, offset), optim="sgd", learning_rate=0.05, critic_learning_rate=0.2,
        rollout_batch_size=12, num_minibatches=1, max_steps=4, **kwargs,
    )  # fmt: skip
    torch.manual_seed(3)
    head = trainer.value_head or trainer._models.critic.head
    torch.nn.init.normal_(head.linear.weight, std=0.1)
    step, found = trainer.training_step, []

    def spy(*args):
        loss = step(*args)
        e = trainer._experience
        numbers = {"advantages": e.advantages, "returns": e.returns, "values": e.old_values}
        modules = [trainer.model] + ([] if trainer.critic is None else [trainer.critic.model])
        for number, module in enumerate(modules):
            numbers |= {f"{number}.{name}": p.grad for name, p in module.named_parameters() if p.grad is not None}
        found.append({name: tensor.double().clone() for name, tensor in numbers.items()})
        return loss

    if trainer._models.critic is not None:  # its gradients are gone when the step has been taken
        from agent_r1_trainer.learning.critic import SeparateCritic

        def keep(self):
            grads = {f"1.{name}": p.grad.double().clone() for name, p in self.model.named_parameters()}
            kept.append(grads)
            SeparateCritic.step(self)

        kept: list[dict[str, torch.Tensor]] = []
        make = trainer._make_critic

        def made(*args):
            critic = make(*args)
            critic.step = keep.__get__(critic)
            return critic

        trainer._make_critic = made
    trainer.training_step = spy
    trainer.train()
    if trainer.critic is not None:
        found = [{**numbers, **grads} for numbers, grads in zip(found, kept, strict=True)]
    return found


@pytest.mark.parametrize("lam", [0.9, 1.0])
@pytest.mark.parametrize("critic", CRITICS)
def test_an_added_constant_or_another_size_of_rewards_changes_nothing(critic, lam, tmp_path):
    plain = watched(tmp_path / "plain", 1.0, 0.0, lam=lam, **CRITICS[critic])
    assert len(plain) == 4 and all(float(numbers["returns"].std()) > 0.5 for numbers in plain)
    for number, (factor, offset) in enumerate([(1.0, 100.0), (10.0, -100.0)]):
        other = watched(tmp_path / f"{number}", factor, offset, lam=lam, **CRITICS[critic])
        for update, (ours, theirs) in enumerate(zip(plain, other, strict=True)):
            assert set(ours) == set(theirs) and any("head" in name for name in ours)
            largest = max(float(value.norm()) for name, value in ours.items() if "." in name)
            for name, value in ours.items():
                size = largest if "." in name else max(float(value.abs().max()), 1.0)
                assert float((value - theirs[name]).abs().max()) <= 1e-5 * size, (update, name, factor, offset)


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("offset", [-100.0, 100.0])
@pytest.mark.slow
def test_a_bandit_is_learned_however_far_its_rewards_are_from_zero(critic, offset):
    benchmark = load_benchmark("critic")
    assert benchmark.bandit(offset, seed=0, rollouts=40, **CRITICS[critic])[-1] >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_task_that_is_solved_stays_solved(seed):
    benchmark = load_benchmark("critic")
    curve = benchmark.bandit(0.0, seed, 200)
    assert benchmark.fall(curve) >= benchmark.SUCCESS_BAR and curve[-1] > 0.99


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("estimator", ["step_gae", "token_gae"])
def test_rewards_that_never_differ_move_nothing(estimator, critic, monkeypatch):
    benchmark = load_benchmark("critic")
    monkeypatch.setattr(benchmark, "LAYERS", 1)
    settings = {"advantage_estimator": estimator, **CRITICS[critic]}
    assert benchmark.drift(0, {"last": 1.0}, max_steps=12, **settings) <= 1e-6
    assert benchmark.drift(1, {"last": -0.1}, max_steps=20, **settings) <= 1e-6  # a mean of these is rounded


@pytest.mark.parametrize(("offset", "size"), [(100.0, 1.0), (0.99, 0.02)])
def test_the_value_loss_leaves_the_trunk_to_the_policy(offset, size, tmp_path):
    benchmark = load_benchmark("critic")
    trainer = benchmark.make_trainer(
        str(tmp_path), lambda: benchmark.Bandit(offset, size), 0, learning_rate=1e-3, critic_learning_rate=1e-2,
        max_steps=32,
    )  # fmt: skip
    step, of_values, of_policy = trainer.training_step, [], []

    def spy(model, inputs, *args):
        if trainer.state.global_step % 4 == 3:  # the last update of a rollout, in which the critic knows it best
            e, index = trainer._experience, 3
            alone = replace(e, advantages=torch.zeros_like(e.advantages))
            for experience, coefficient, norms in ((alone, 0.5, of_values), (e, 0.0, of_policy)):
                trainer.args.vf_coef, before = coefficient, trainer.args.vf_coef
                trainer._updater._config.vf_coef = coefficient
                norms.append(trainer._updater.run(model, experience, index, warmup=False).grad_norm)
                trainer.args.vf_coef = trainer._updater._config.vf_coef = before
                model.zero_grad()
        return step(model, inputs, *args)

    trainer.training_step = spy
    trainer.train()
    # Sums over all rollouts: where a mini-batch holds no mistake, its policy gradient alone is next to nothing.
    assert len(of_values) == 8 and of_values[0] > 0
    assert sum(of_values) <= 0.5 * sum(of_policy), (of_values, of_policy)


def values_of(trainer, env: str, words: list[int]) -> list[float]:
    """What the critic thinks of some prompts, in units of the reward."""
    queries = [Trajectory("", [Step([3, word, 1, 6], [])], StopReason.TERMINATED, env=env) for word in words]
    scales = trainer._models.scales
    layout = Layout(queries, scales.rows)
    batch = collate(merge_units(queries), queries, layout, pad_id=0)
    with torch.no_grad():
        critic = trainer._models.critic
        if critic is None:
            found = score(trainer.model, batch, values=True).values
        else:
            found = critic(batch.input_ids, batch.attention_mask, *batch.value_positions("step"))
    units = scales.units(env)
    return (units.mean + units.scale * found.double()).tolist()


def shifted(offset: float):
    """A cue environment that pays an offset each turn."""

    class Shifted(CueEnv):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, reward + offset, *rest

    return Shifted


def after_credit(trainer) -> None:
    """Collect and assign the credit of one rollout, without an update."""
    trainer._updater_run = trainer.training_step
    trainer.training_step = lambda *args: _collect_only(trainer)
    trainer.train()


def _collect_only(trainer) -> torch.Tensor:
    trainer._experience = trainer._collect(0)
    return torch.zeros(())


@pytest.mark.parametrize("critic", FILES)
def test_a_new_run_on_other_rewards_begins_with_the_values_that_were_saved(critic, tmp_path):
    first = make_trainer(tmp_path / "first", max_steps=16, critic=critic)
    first.train()
    first.save_model(str(tmp_path / "saved"))
    saved = values_of(first, "", [4, 5, 7, 8])
    assert len({round(value, 3) for value in saved}) > 1
    second = make_trainer(
        tmp_path / "second", model=str(tmp_path / "saved"), env=shifted(40.0), max_steps=4, critic=critic
    )
    assert values_of(second, "", [4, 5, 7, 8]) == pytest.approx(saved, abs=1e-4)
    after_credit(second)
    units = second._models.scales.units("")
    assert units.mean > 30  # of its own targets
    assert values_of(second, "", [4, 5, 7, 8]) == pytest.approx(saved, abs=1e-3)
    assert second._experience.value_of_step(0, "") < 30


MIXTURE = {"cue": CueEnv, "far": MixtureEntry(shifted(100.0), weight=1.0)}


@pytest.mark.parametrize("critic", FILES)
def test_each_environment_of_a_mixture_has_a_row_and_units_of_its_own(critic, tmp_path):
    trainer = make_trainer(tmp_path / "run", env=MIXTURE, max_steps=8, critic=critic)
    trainer.train()
    scales = trainer._models.scales
    assert scales.rows == {"cue": 0, "far": 1}
    assert scales.units("cue").mean < 10 and scales.units("far").mean > 100
    assert max(values_of(trainer, "cue", [4, 5])) < 20 < 100 < min(values_of(trainer, "far", [4, 5]))
    trainer.save_model(str(tmp_path / "saved"))
    # Rows are found by name, whatever their order.
    other = {"far": MIXTURE["far"], "new": StallEnv, "cue": CueEnv}
    again = make_trainer(tmp_path / "again", model=str(tmp_path / "saved"), env=other, max_steps=4, critic=critic)
    for env in ("cue", "far"):
        assert values_of(again, env, [4, 5, 8]) == pytest.approx(values_of(trainer, env, [4, 5, 8]), rel=1e-5)
    assert again._models.scales.units("new") is None


@pytest.mark.parametrize("critic", FILES)
def test_a_critic_of_one_environment_serves_all_of_a_mixture_and_rows_that_are_none_are_named(critic, tmp_path, caplog):
    first = make_trainer(tmp_path / "first", max_steps=8, critic=critic)
    first.train()
    first.save_model(str(tmp_path / "saved"))
    mixed = make_trainer(tmp_path / "mixed", model=str(tmp_path / "saved"), env=MIXTURE, max_steps=4, critic=critic)
    for env in MIXTURE:
        assert values_of(mixed, env, [4, 5, 8]) == pytest.approx(values_of(first, "", [4, 5, 8]), rel=1e-5)
    mixed.train()
    mixed.save_model(str(tmp_path / "two"))
    with caplog.at_level(logging.WARNING, "agent_r1_trainer"):
        alone = make_trainer(tmp_path / "alone", model=str(tmp_path / "two"), max_steps=4, critic=critic)
    assert "its rows are those of 'cue', 'far', none of ''" in caplog.text and "starts afresh" in caplog.text
    assert alone._models.scales.units("") is None
    caplog.clear()
    with caplog.at_level(logging.WARNING, "agent_r1_trainer"):
        make_trainer(
            tmp_path / "three", model=str(tmp_path / "two"), env={"cue": CueEnv, "new": CueEnv}, max_steps=4,
            critic=critic,
        )  # fmt: skip
    assert "has no row for new: the value of these environments is learned afresh" in caplog.text


def as_before(folder: Path, scalers: dict | None) -> dict[str, torch.Tensor]:
    """Make a checkpoint what the code before units wrote: one row for all, and the scale in the state's file."""
    state = json.loads((folder / "steppo_state.json").read_text())
    (folder / "steppo_state.json").write_text(json.dumps({**state, "scalers": scalers}))
    [path] = [folder / name for name in FILES.values() if (folder / name).is_file()]
    tensors = load_file(path)
    for name in tensors:
        if name.startswith(("linear.", "head.")):
            tensors[name] = tensors[name][:1].clone()
    save_file(tensors, path)
    for name in ("optimizer.pt", "critic_optimizer.pt"):
        if (folder / name).is_file():
            saved = torch.load(folder / name, weights_only=True)
            inner = saved["optimizer"] if "optimizer" in saved else saved
            for moments in inner["state"].values():
                for key, value in moments.items():
                    if value.dim() and len(value) == 2 and value.shape[1:] in ((), (32,)):
                        moments[key] = value[:1].clone()
            torch.save(saved, folder / name)
    return tensors


def row_of(trainer, row: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    head: ValueHead = trainer.value_head or trainer._models.critic.head
    return head.linear.weight[row].detach().clone(), head.linear.bias[row].detach().clone()


@pytest.mark.parametrize("critic", FILES)
@pytest.mark.parametrize("mixed", [False, True])
def test_checkpoints_from_before_resume_with_the_values_they_meant(critic, mixed, tmp_path):
    run = {"critic": critic, "env": MIXTURE if mixed else CueEnv, "save_strategy": "steps", "save_steps": 4}
    make_trainer(tmp_path / "run", max_steps=4, **run).train()
    names = ["cue", "far"] if mixed else [""]
    scalers = {name: {"count": 8, "mean": 3.0, "m2": 8 * (number + 2.0) ** 2} for number, name in enumerate(names)}
    tensors = as_before(tmp_path / "run" / "checkpoint-4", scalers)
    weight = next(value for name, value in tensors.items() if name.endswith("linear.weight") and len(value) == 1)
    resumed = make_trainer(tmp_path / "run", max_steps=8, **run)
    seen = []
    collect = resumed._collect
    resumed._collect = lambda number: (
        seen.append([(row_of(resumed, row)[0], resumed._models.scales.units(name)) for row, name in enumerate(names)])
        or collect(number)
    )
    resumed.train(resume_from_checkpoint=True)
    for number, (row, units) in enumerate(seen[0]):
        assert torch.equal(row, weight[0]) and units.mean == 0.0 and units.scale == number + 2.0
    assert resumed.state.global_step == 8
    assert resumed._models.scales.state_dict()[names[0]]["count"] > 8  # the moments go on


def test_saved_heads_from_before_are_read_in_the_units_that_they_had(tmp_path, caplog):
    trainer = make_trainer(tmp_path / "run", max_steps=4, save_strategy="steps", save_steps=4)
    trainer.train()
    as_before(tmp_path / "run" / "checkpoint-4", {"": {"count": 2, "mean": 1.0, "m2": 18.0}})
    begun = make_trainer(tmp_path / "a", model=str(tmp_path / "run" / "checkpoint-4"), max_steps=4)
    units = begun._models.scales.units("")
    assert (units.mean, units.scale) == (0.0, 3.0) and torch.equal(row_of(begun)[0], row_of(trainer)[0])
    # Saved without a checkpoint, the file does not say what its values were divided by.
    (tmp_path / "run" / "checkpoint-4" / "steppo_state.json").unlink()
    with caplog.at_level(logging.WARNING, "agent_r1_trainer"):
        begun = make_trainer(tmp_path / "b", model=str(tmp_path / "run" / "checkpoint-4"), max_steps=4)
    assert "does not say what its values were divided by" in caplog.text
    weight, _ = row_of(begun)
    after_credit(begun)
    torch.testing.assert_close(row_of(begun)[0], weight)  # divided by this run's own deviation
    assert begun._models.scales.units("").mean > 0
    # Rewards of a separate critic were left as they are.
    apart = make_trainer(tmp_path / "apart", max_steps=4, critic="separate")
    apart.train()
    apart.save_model(str(tmp_path / "saved"))
    save_file(load_file(tmp_path / "saved" / FILES["separate"]), tmp_path / "saved" / FILES["separate"])
    begun = make_trainer(tmp_path / "c", model=str(tmp_path / "saved"), max_steps=4, critic="separate")
    units = begun._models.scales.units("")
    assert (units.mean, units.scale) == (0.0, 1.0)


def test_the_head_of_another_model_is_left_with_a_warning_and_its_units_too(tmp_path, caplog):
    other = make_trainer(tmp_path / "other", max_steps=4, model=make_model(width=16))
    other.train()
    other.save_model(str(tmp_path / "saved"))
    make_model().save_pretrained(tmp_path / "model")
    shutil.copy(tmp_path / "saved" / FILES["value_head"], tmp_path / "model")
    with caplog.at_level(logging.WARNING, "agent_r1_trainer"):
        trainer = make_trainer(tmp_path, max_steps=4, model=str(tmp_path / "model"))
    assert "linear.weight [1, 32]: the file has [1, 16]" in caplog.text
    assert trainer._models.scales.units("") is None


@pytest.mark.parametrize("value", [True, False])
def test_a_setting_that_has_no_meaning_any_more_is_said_to_have_none(value, tmp_path, caplog):
    from agent_r1_trainer.train.settings import read_settings

    with caplog.at_level(logging.WARNING, "agent_r1_trainer"):
        StepPOConfig(str(tmp_path), report_to=[], use_cpu=True)
        assert not caplog.text
        config = StepPOConfig(str(tmp_path), report_to=[], use_cpu=True, reward_scaling=value)
    assert f"reward_scaling={value} has no effect any more" in caplog.text and "running deviation" in caplog.text
    assert "reward_scaling" not in config.to_dict()
    (tmp_path / "old.yaml").write_text(f"model: tiny\nenv: AgentR1/HotpotQA-v0\nreward_scaling: {str(value).lower()}\n")
    assert StepPOConfig(str(tmp_path), report_to=[], use_cpu=True, **read_settings(tmp_path / "old.yaml").training)


def test_what_is_shown_of_an_episode_is_in_units_of_the_reward(tmp_path):
    from agent_r1_trainer.trainer.completions import episode_rows

    trainer = make_trainer(tmp_path, env=shifted(100.0), max_steps=4, logging_steps=4)
    trainer.train()
    rows = episode_rows(trainer._experience, make_tokenizer(), 4)
    assert all(row["value"] > 90 for row in rows)
    log = next(entry for entry in trainer.state.log_history if "value/mean" in entry)
    assert log["value/mean"] > 90 and log["value/return_mean"] > 90 and log["value/scale"] > 0
    assert "reward_scale" not in log
