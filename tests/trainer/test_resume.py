"""A run that was killed continues as if nothing had happened, to the last bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import TrainerCallback

from agent_r1_trainer._compat import unnumbered_cpu
from agent_r1_trainer.trainer.checkpointing import last_whole_checkpoint
from tests.helpers.training import CueEnv, make_trainer, measured, weights

ROOT = Path(__file__).parents[2]
# Four tasks of four samples: an epoch has 2 rollouts of 4 updates each, so step 14 is in epoch 2, inside a rollout.
RUN = {
    "num_generations": 4,
    "max_steps": 20,
    "save_strategy": "steps",
    "save_steps": 4,
    "logging_steps": 3,
    "lam": 0.95,
}
RUN |= {"lr_scheduler_type": "linear", "env_kwargs": {"tasks": 8}, "max_completion_length": 3}
EVALUATED = {"eval_env": CueEnv, "eval_strategy": "steps", "eval_steps": 6, "eval_episodes": 4}


class StopAt(TrainerCallback):
    """Does something in the middle of the run."""

    def __init__(self, step: int, act) -> None:
        self.step, self.act = step, act

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            self.act()


def crash() -> None:
    raise KeyboardInterrupt


def optimizer_tensors(trainer) -> list[torch.Tensor]:
    optimizers = [trainer.optimizer] + ([trainer.critic.optimizer] if trainer.critic is not None else [])
    return [t for o in optimizers for state in o.state_dict()["state"].values() for t in state.values()]


VARIANTS = {
    "without evaluation": {},
    "with evaluation": EVALUATED,
    "separate critic": {
        "critic": "separate",
        "critic_warmup_steps": 4,
        "beta": 0.1,
        **EVALUATED,
    },
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.slow
def test_a_run_interrupted_inside_a_rollout_resumes_bit_equal(name, tmp_path):
    kwargs = {**RUN, **VARIANTS[name]}
    whole = make_trainer(tmp_path / "whole", **kwargs)
    whole.train()
    with pytest.raises(KeyboardInterrupt):
        make_trainer(tmp_path / "cut", callbacks=[StopAt(14, crash)], **kwargs).train()
    resumed = make_trainer(tmp_path / "cut", **kwargs)
    resumed.train(resume_from_checkpoint=True)
    assert measured(resumed) == measured(whole)
    assert len(measured(whole)) == 7 + (5 if "eval_env" in kwargs else 0)
    for (key, value), other in zip(weights(whole).items(), weights(resumed).values(), strict=True):
        assert torch.equal(value, other), key
    pairs = zip(optimizer_tensors(whole), optimizer_tensors(resumed), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


SCRIPT = """
import json, os, signal, sys
from tests.trainer.test_resume import EVALUATED, RUN, StopAt, make_trainer
how = signal.SIGKILL if sys.argv[2] == "kill" else signal.SIGTERM
stop = StopAt(14, lambda: os.kill(os.getpid(), how))
make_trainer(sys.argv[1], callbacks=[stop], **RUN, **EVALUATED).train()
print("ended", flush=True)
"""


@pytest.mark.parametrize("how", ["kill", "term"])
@pytest.mark.slow
def test_a_killed_process_resumes_and_a_terminated_one_finishes_its_rollout(how, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "cut"), how]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180)
    if how == "kill":
        assert ended.returncode == -signal.SIGKILL
        assert last_whole_checkpoint(tmp_path / "cut").endswith("checkpoint-12")
    else:
        assert ended.returncode == 0 and "ended" in ended.stdout, ended.stderr[-2000:]
        assert last_whole_checkpoint(tmp_path / "cut").endswith("checkpoint-16")
    whole = make_trainer(tmp_path / "whole", **RUN, **EVALUATED)
    whole.train()
    resumed = make_trainer(tmp_path / "cut", **RUN, **EVALUATED)
    resumed.train(resume_from_checkpoint=True)
    assert measured(resumed) == measured(whole)
    assert all(torch.equal(a, b) for a, b in zip(weights(whole).values(), weights(resumed).values(), strict=True))


def test_a_save_inside_a_rollout_waits_for_its_end(tmp_path):
    class SaveNow(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_save = state.global_step == 5

    make_trainer(tmp_path, callbacks=[SaveNow()], **{**RUN, "save_strategy": "no", "max_steps": 12}).train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-8"]


def test_a_checkpoint_that_was_not_finished_is_passed_over(tmp_path):
    assert last_whole_checkpoint(tmp_path) is None
    for step, state in ((4, "{}"), (8, "{}"), (16, '{"cut'), (20, None)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if state is not None:
            (folder / "trainer_state.json").write_text(state)
    assert last_whole_checkpoint(tmp_path) == str(tmp_path / "checkpoint-8")
    with pytest.raises(ValueError, match="no whole checkpoint"):
        make_trainer(tmp_path / "none", max_steps=4).train(resume_from_checkpoint=True)


def test_the_best_checkpoint_is_found_by_success_and_loads_without_the_trainer(tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from agent_r1_trainer.prompts.context_settings import ContextSettings

    kwargs = {**RUN, **EVALUATED, "eval_steps": 4, "load_best_model_at_end": True, "recipe": "native"}
    trainer = make_trainer(tmp_path, metric_for_best_model="eval_reward", **kwargs)
    trainer.train()
    evaluations = {e["step"]: e["eval_reward"] for e in trainer.state.log_history if "eval_reward" in e and e["step"]}
    best = max(evaluations, key=evaluations.get)
    assert trainer.state.best_model_checkpoint.endswith(f"checkpoint-{best}")
    model, loading = AutoModelForCausalLM.from_pretrained(trainer.state.best_model_checkpoint, output_loading_info=True)
    assert not loading["unexpected_keys"] and not loading["missing_keys"]
    assert torch.equal(model.model.embed_tokens.weight, trainer.model.model.embed_tokens.weight)
    assert AutoTokenizer.from_pretrained(trainer.state.best_model_checkpoint).chat_template
    assert ContextSettings.load(trainer.state.best_model_checkpoint).recipe == "native"


def test_the_card_of_a_model_without_a_name_names_none(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=4, save_strategy="steps", save_steps=4)
    trainer.train()
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "fine-tuned version of a local model" in card and "None" not in card
    assert "StepPO (published as CAPO), a method introduced in [CAPO: Critic-Guided" in card
    trainer.model.config._name_or_path = "someone/model"
    trainer.create_model_card(model_name="mine")
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "[someone/model](https://huggingface.co/someone/model)" in card


def test_a_checkpoint_of_other_updates_per_rollout_is_refused(tmp_path):
    make_trainer(tmp_path, max_steps=4, save_strategy="steps", save_steps=4).train()
    other = make_trainer(tmp_path, max_steps=6, num_ppo_epochs=1, save_strategy="steps", save_steps=4)
    with pytest.raises(ValueError, match=r"num_ppo_epochs \* num_minibatches = 4, not 2"):
        other.train(resume_from_checkpoint=True)


def test_a_cpu_with_a_number_is_called_plainly_where_files_are_loaded(tmp_path):
    """As one of several processes has it; transformers before 5.18 passes the name on to torch, which knows none."""
    args = make_trainer(tmp_path).args
    vars(args)["_setup_devices"] = torch.device("cpu:0")
    torch.save({"weight": torch.ones(2)}, tmp_path / "file")
    with pytest.raises(RuntimeError, match="cpu:0"):
        torch.load(tmp_path / "file", map_location=args.device, weights_only=True)
    with unnumbered_cpu(args):
        assert torch.load(tmp_path / "file", map_location=args.device, weights_only=True)["weight"].sum() == 2
    assert args.device == torch.device("cpu:0")
