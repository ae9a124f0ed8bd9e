"""A checkpoint goes on with the settings that it was written with, or says what is different now."""

from __future__ import annotations

import json
import logging
import math
import shutil
from pathlib import Path

import gymnasium
import pytest
import torch
from transformers import TrainerCallback

from agent_r1_trainer.environments.mixture import MixtureEntry
from tests.helpers.training import CueEnv, StallEnv, make_model, make_trainer, measured, weights

RUN = {"max_steps": 8, "save_strategy": "steps", "save_steps": 4, "env_kwargs": {"tasks": 8}, "num_generations": 2}
GROUPS = {**RUN, "advantage_estimator": "grpo", "num_generations": 4}
MIXTURE = {name: value for name, value in RUN.items() if name != "env_kwargs"}


def mixture(**stall):
    return {"cue": CueEnv, "stall": MixtureEntry(StallEnv, max_turns=4, **{"kwargs": {"tasks": 6}, **stall})}


class Enough(TrainerCallback):
    """Ends a run at its first checkpoint."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == 4


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, Path]:
    """The first checkpoint of short runs."""
    made = {}
    for name, kwargs in {
        "step_gae": RUN,
        "grpo": GROUPS,
        "mixture": {**MIXTURE, "env": mixture()},
        "separate": {**RUN, "critic": "separate", "beta": 0.1},
    }.items():
        folder = tmp_path_factory.mktemp(name.replace(" ", "_"))
        make_trainer(folder, **kwargs, callbacks=[Enough()]).train()
        made[name] = folder / "checkpoint-4"
    return made


class Other(CueEnv):
    """The same panel in another class."""


def other_tasks(tasks: int = 8) -> gymnasium.Env:
    env = CueEnv(tasks)
    env.tasks.ids = tuple(f"other-{i}" for i in range(tasks))
    return env


CHANGES = {
    "seed": ({"seed": 43}, "seed: 42 there, 43 now"),
    "rollout size": ({"rollout_batch_size": 8}, "rollout_batch_size: 16 there, 8 now"),
    "groups": ({"num_generations": 4}, "num_generations: 2 there, 4 now"),
    "gamma": ({"gamma": 0.9}, "gamma: 1.0 there, 0.9 now"),
    "lambda": ({"lam": 0.5}, "lam: 1.0 there, 0.5 now"),
    "estimator": ({"advantage_estimator": "grpo"}, 'advantage_estimator: "step_gae" there, "grpo" now'),
    "ratio": (
        {"importance_sampling_level": "token"},
        'importance_sampling_level: "sequence" there, "token" now',
    ),
    "clip": ({"epsilon": 0.1}, "epsilon: 0.2 there, 0.1 now"),
    "temperature": ({"temperature": 0.7}, "temperature: 1.0 there, 0.7 now"),
    "top_p": ({"top_p": 0.9}, "top_p: 1.0 there, 0.9 now"),
    "environment arguments": ({"env_kwargs": {"tasks": 8, "turns": 3}}, "env_kwargs.turns: null there, 3 now"),
    "panel": ({"env_kwargs": {"tasks": 6}}, "tasks.count: 8 there, 6 now"),
    "tasks": ({"env": other_tasks}, "tasks.hash: "),
    "environment": ({"env": Other}, r"env: \"tests.helpers.cues:CueEnv\" there, .*:Other\" now"),
    "turns": ({"max_turns": 3}, "max_turns: null there, 3 now"),
    "recipe": ({"recipe": "native"}, 'recipe: "default" there, "native" now'),
    "curriculum": (
        {"task_sampler": "agent_r1_trainer.curriculum:MediumDifficulty"},
        "task_sampler: null there",
    ),
    "epochs and parts": ({"num_ppo_epochs": 1, "num_minibatches": 4}, "num_minibatches: 2 there, 4 now"),
    "critic": ({"critic": "separate"}, 'critic: "value_head" there, "separate" now'),
    "longest reply": ({"max_completion_length": 3}, "max_completion_length: 2 there, 3 now"),
    "optimizer": ({"optim": "sgd"}, 'optim: "adamw_torch.*" there, "sgd" now'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_makes_another_run_is_refused_with_both_values(name, checkpoints, tmp_path):
    change, said = CHANGES[name]
    trainer = make_trainer(tmp_path, **{**RUN, **change})
    before = weights(trainer)
    with pytest.raises(ValueError, match=f"(?s)checkpoint-4 .*other settings.*{said}"):
        trainer.train(resume_from_checkpoint=str(checkpoints["step_gae"]))
    assert all(torch.equal(before[key], value) for key, value in weights(trainer).items())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"advantage_kwargs": {"normalize_std": False}}, "advantage_kwargs.normalize_std: null there, false now"),
        ({"loss_aggregation": "token_mean"}, 'loss_aggregation: "step_mean" there, "token_mean" now'),
    ],
)
def test_options_of_estimator_and_loss_are_refused(change, said, checkpoints, tmp_path):
    with pytest.raises(ValueError, match=said):
        make_trainer(tmp_path, **{**GROUPS, **change}).train(resume_from_checkpoint=str(checkpoints["grpo"]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weight": 2.0}, "envs.stall.weight: 1.0 there, 2.0 now"),
        ({"reward_scale": 3.0}, "envs.stall.reward_scale: 1.0 there, 3.0 now"),
        ({"loss_weight": 0.5}, "envs.stall.loss_weight: 1.0 there, 0.5 now"),
        ({"kwargs": {"tasks": 6, "scale": 2.0}}, "envs.stall.kwargs.scale: null there, 2.0 now"),
    ],
)
def test_entries_of_a_mixture_are_refused(change, said, checkpoints, tmp_path):
    trainer = make_trainer(tmp_path, **{**MIXTURE, "env": mixture(**change)})
    with pytest.raises(ValueError, match=said):
        trainer.train(resume_from_checkpoint=str(checkpoints["mixture"]))


def test_another_start_is_refused_where_it_is_the_reference(checkpoints, tmp_path):
    kwargs = {**RUN, "critic": "separate", "beta": 0.1}
    with pytest.raises(ValueError, match="start: "):
        trainer = make_trainer(tmp_path / "a", model=make_model(seed=1), **kwargs)
        trainer.train(resume_from_checkpoint=str(checkpoints["separate"]))
    make_trainer(tmp_path / "b", **kwargs).train(resume_from_checkpoint=str(checkpoints["separate"]))


class Rates(TrainerCallback):
    """Notes the learning rates that each step is taken with."""

    def __init__(self) -> None:
        self.seen: dict[int, list[float]] = {}

    def on_pre_optimizer_step(self, args, state, control, optimizer=None, **kwargs):
        self.seen[state.global_step] = [group["lr"] for group in optimizer.param_groups]


@pytest.mark.parametrize("critic", ["value_head", "separate"])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_a_new_learning_rate_is_applied_and_logged(critic, schedule, tmp_path, caplog):
    base = {**RUN, "lr_scheduler_type": schedule, "critic": critic}
    make_trainer(tmp_path, **{**base, "max_steps": 8}, callbacks=[Enough()]).train()
    rates = Rates()
    change = {"learning_rate": 1e-4, "critic_learning_rate": 5e-4, "max_steps": 8}
    trainer = make_trainer(tmp_path, **{**base, **change}, callbacks=[rates])
    with caplog.at_level(logging.WARNING):
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    share = {
        "constant": lambda step: 1.0,
        "linear": lambda step: 1.0 - step / 8,
        "cosine": lambda step: 0.5 * (1.0 + math.cos(math.pi * step / 8)),
    }[schedule]
    assert sorted(rates.seen) == list(range(4, 8))
    for step, found in rates.seen.items():
        wanted = [1e-4 * share(step)] * 2 + [5e-4 * share(step)] * (critic == "value_head")
        assert found == pytest.approx(wanted)
    if critic == "separate":
        assert trainer.critic.scheduler.base_lrs == [5e-4]
    assert "learning_rate: 0.003 there, 0.0001 now" in caplog.text
    assert "critic_learning_rate: 0.01 there, 0.0005 now" in caplog.text


def test_a_new_length_of_the_run_changes_the_schedule_at_once(tmp_path):
    base = {**RUN, "lr_scheduler_type": "linear", "critic": "separate"}
    make_trainer(tmp_path, **base, callbacks=[Enough()]).train()
    rates = Rates()
    trainer = make_trainer(tmp_path, **{**base, "max_steps": 16}, callbacks=[rates])
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert trainer.state.global_step == 16
    assert {step: found[0] for step, found in rates.seen.items()} == pytest.approx(
        {step: 3e-3 * (1 - step / 16) for step in range(4, 16)}
    )
    assert trainer.critic.optimizer.param_groups[0]["lr"] == pytest.approx(0.0)


def test_settings_of_the_optimizer_are_applied(checkpoints, tmp_path):
    change = {"weight_decay": 0.1, "adam_beta2": 0.95}
    trainer = make_trainer(tmp_path, **{**RUN, **change})
    trainer.train(resume_from_checkpoint=str(checkpoints["step_gae"]))
    groups = trainer.optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0, 0.0]
    assert {group["betas"][1] for group in groups} == {0.95}


def test_logging_saving_and_evaluation_are_applied(tmp_path, caplog):
    base = {**RUN, "logging_steps": 2, "save_total_limit": None}
    make_trainer(tmp_path, **{**base, "max_steps": 4}).train()
    change = {"logging_steps": 1, "save_steps": 8, "max_steps": 12, "eval_env": CueEnv, "eval_episodes": 2}
    change |= {"eval_strategy": "steps", "eval_steps": 6, "rollout_concurrency": 3, "micro_batch_tokens": 256}
    trainer = make_trainer(tmp_path, **{**base, **change})
    with caplog.at_level(logging.WARNING):
        trainer.train(resume_from_checkpoint=True)
    history = trainer.state.log_history
    assert [entry["step"] for entry in history if "loss" in entry] == [2, 4, *range(5, 13)]
    assert [entry["step"] for entry in history if "eval_success" in entry] == [6, 12]
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == [
        "checkpoint-12",
        "checkpoint-4",
        "checkpoint-8",
    ]
    assert "logging_steps: 2 there, 1 now" in caplog.text and "micro_batch_tokens: 512 there, 256 now" in caplog.text


def served(tasks: int = 8, service: dict | None = None) -> gymnasium.Env:
    return CueEnv(tasks)


def test_keys_of_services_are_no_settings_and_stand_nowhere(tmp_path):
    def run(host: str, key: str, steps: int):
        url = f"http://someone:{key}@{host}/retrieve?api_key={key}"
        service = {"url": url, "headers": {"Authorization": f"Bearer {key}"}}
        kwargs = {**RUN, "max_steps": steps, "env_kwargs": {"tasks": 8, "service": service}}
        return make_trainer(tmp_path, env=served, **kwargs)

    run("host", "first-key", 4).train()
    state = (tmp_path / "checkpoint-4" / "steppo_state.json").read_text()
    assert "first-key" not in state and '"http://host/retrieve?api_key=[hidden]"' in state
    with pytest.raises(
        ValueError, match=r'env_kwargs.service.url: "http://host/.* there, "http://other/.* now'
    ) as said:
        run("other", "other-key", 8).train(resume_from_checkpoint=True)
    assert "-key" not in str(said.value)
    trainer = run("host", "second-key", 8)
    trainer.train(resume_from_checkpoint=True)
    assert trainer.state.global_step == 8


def test_the_same_settings_say_nothing(checkpoints, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "agent_r1_trainer"):
        trainer = make_trainer(tmp_path, **{**RUN, "learning_rate": 0.003, "env_kwargs": '{"tasks": 8}'})
        trainer.train(resume_from_checkpoint=str(checkpoints["step_gae"]))
    assert "settings" not in caplog.text and trainer.state.global_step == 8


def test_a_checkpoint_without_a_record_goes_on_and_says_so(checkpoints, tmp_path, caplog):
    path = shutil.copytree(checkpoints["step_gae"], tmp_path / "checkpoint-4") / "steppo_state.json"
    state = json.loads(path.read_text())
    del state["settings"]
    path.write_text(json.dumps(state))
    trainer = make_trainer(tmp_path, **{**RUN, "gamma": 0.9})
    with caplog.at_level(logging.WARNING):
        trainer.train(resume_from_checkpoint=str(path.parent))
    assert "could not be compared" in caplog.text and trainer.state.global_step == 8


def test_a_run_that_is_done_takes_no_further_step(tmp_path):
    """The epoch goes on after step 8, so transformers would take one more."""
    kwargs = {**RUN, "max_steps": 8, "env_kwargs": {"tasks": 32}, "logging_steps": 1, "critic": "separate"}
    done = make_trainer(tmp_path, **kwargs)
    done.train()
    again = make_trainer(tmp_path, **kwargs)
    output = again.train(resume_from_checkpoint=True)
    assert output.global_step == again.state.global_step == 8
    for module in (lambda trainer: trainer.model, lambda trainer: trainer._models.critic):
        pairs = zip(module(done).parameters(), module(again).parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    shorter = make_trainer(tmp_path, **{**kwargs, "max_steps": 4})
    shorter.train(resume_from_checkpoint=True)
    assert shorter.state.global_step == 8
    assert measured(again) == measured(done)[: len(measured(again))] and len(measured(again)) == 8


def test_adapters_are_compared(tmp_path):
    peft = pytest.importorskip("peft")
    adapters = {"task_type": "CAUSAL_LM", "r": 4, "target_modules": ["q_proj", "v_proj"]}
    make_trainer(tmp_path, **{**RUN, "max_steps": 4}, peft_config=peft.LoraConfig(**adapters, lora_alpha=8)).train()
    same = make_trainer(tmp_path, **RUN, peft_config=peft.LoraConfig(**adapters, lora_alpha=8))
    same.train(resume_from_checkpoint=True)
    with pytest.raises(ValueError, match="adapters.default.lora_alpha: 8 there, 16 now"):
        other = make_trainer(tmp_path, **RUN, peft_config=peft.LoraConfig(**adapters, lora_alpha=16))
        other.train(resume_from_checkpoint=True)
    with pytest.raises(ValueError, match="start: "):
        base = make_trainer(
            tmp_path, **RUN, model=make_model(seed=3), peft_config=peft.LoraConfig(**adapters, lora_alpha=8)
        )
        base.train(resume_from_checkpoint=True)
