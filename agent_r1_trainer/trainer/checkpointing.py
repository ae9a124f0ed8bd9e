"""What a checkpoint holds beyond the policy, the optimizer and the state that transformers saves, and when it is made.

Beside them lie the value head or the separate critic, with the units that it predicts in and its optimizer, the metrics
since the last log, running totals, the state of a curriculum, how the model was shown its context, and the settings
that it was written with, which a resumed run is compared with. Without a curriculum the tasks need nothing: their order
follows from the seed and the step.

Checkpoints and stops lie between rollouts. Between two updates of the same rollout a checkpoint would have to hold the
rollout, and a resumed run would shift the phase of all that follow. So a save that is asked for in between waits for
the rollout's last update, and so does the SIGTERM of a cluster that wants its machine back.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput

from agent_r1_envs.files import write_json
from agent_r1_envs.services.secrecy import without_secrets
from agent_r1_trainer._compat import (
    BaseTrainer,
    base_causal_lm,
    derived_keys,
    is_peft_model,
    mend_model_card,
    unnumbered_cpu,
)
from agent_r1_trainer.curriculum.epochs import TaskCursor
from agent_r1_trainer.curriculum.sampler import TaskSampler
from agent_r1_trainer.flows import AgentEnvLoop, AsyncEnvLoop
from agent_r1_trainer.learning.critic import (
    CRITIC_WEIGHTS,
    VALUE_HEAD_WEIGHTS,
    SeparateCritic,
    fit_rows,
    keeping_settings,
    load_critic,
    save_critic,
)
from agent_r1_trainer.learning.distributed import any_rank
from agent_r1_trainer.learning.scoring import ValueHead
from agent_r1_trainer.learning.update import Updater
from agent_r1_trainer.metrics import MetricStore
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.steppo_config import StepPOConfig, options
from agent_r1_trainer.trainer.models import Models
from agent_r1_trainer.trainer.resuming import (
    check_resumed,
    config_settings,
    environment_settings,
    panel_settings,
    plain,
    start_of,
)
from agent_r1_trainer.trainer.setup import FlowSetup

__all__ = ["BoundaryCallback", "CheckpointedTrainer", "last_whole_checkpoint"]


class BoundaryCallback(TrainerCallback):
    """Saves where a save was put off to, and stops there after a SIGTERM.

    Args:
        accelerator: The ranks agree on stopping.
        updates: Optimizer steps after each rollout.
    """

    def __init__(self, accelerator: Accelerator, updates: int) -> None:
        self.save_due = False
        self._accelerator = accelerator
        self._updates = updates
        self._terminated = False
        self._previous: Any = None
        self._installed = False

    def at_boundary(self, state: TrainerState) -> bool:
        """Whether no rollout is half used."""
        return state.global_step % self._updates == 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take over SIGTERM; only the main thread can.

        A resumed run logs, evaluates and saves as often as it is told to now, not as its checkpoint did.
        """
        state.compute_steps(args, state.max_steps)
        self._terminated = False
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._on_sigterm)
            self._installed = True

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """At the end of a rollout's updates, do what was put off."""
        if not self.at_boundary(state):
            return
        if any_rank(self._accelerator, self._terminated):
            control.should_save = control.should_training_stop = True
        if self.save_due:
            control.should_save = True
            self.save_due = False

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Give SIGTERM back."""
        self.release()

    def release(self) -> None:
        """Put the former handler of SIGTERM back, if it was taken over."""
        if self._installed:
            signal.signal(signal.SIGTERM, self._previous)
            self._installed = False

    def _on_sigterm(self, signum: int, frame: Any) -> None:
        self._terminated = True


_STATE = "steppo_state.json"
_TRAINER_STATE = "trainer_state.json"
_OF_FILES = frozenset("base_model_name_or_path revision inference_mode peft_version auto_mapping".split())
"""What a configuration of adapters says of where it was loaded from."""


class CheckpointedTrainer(BaseTrainer):
    """The part of the trainer that saves and resumes, and so holds what a checkpoint does.

    Args:
        models: The policy and what is made beside it.
        setup: Where the run plays.
        task_sampler: Chooses the tasks of every rollout.
        args: The settings.
        **kwargs: As for transformers' trainer.
    """

    args: StepPOConfig

    def __init__(
        self, models: Models, setup: FlowSetup, task_sampler: TaskSampler, args: StepPOConfig, **kwargs: Any
    ) -> None:
        self._models = models
        self.entries, self.flow, self.eval_flow = setup.entries, setup.flow, setup.eval_flow
        self.panels = self.flow.panels
        self.task_sampler = task_sampler
        super().__init__(model=models.policy, args=args, processing_class=models.tokenizer, **kwargs)
        self.critic: SeparateCritic | None = None
        self._updater: Updater | None = None
        self._store = MetricStore()
        self._totals = {"loss": 0.0, "steps": 0.0, "tokens": 0.0}
        self._boundary = BoundaryCallback(self.accelerator, args.updates_per_rollout)
        self.add_callback(self._boundary)

    @property
    def value_head(self) -> ValueHead | None:
        """The value head on the policy's trunk, or None."""
        return getattr(base_causal_lm(self.accelerator.unwrap_model(self.model)), "value_head", None)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        if not self._boundary.at_boundary(self.state):
            self._boundary.save_due = True  # saved once the rollout's updates are done
            return
        self.create_model_card(model_name=Path(self.args.output_dir).name)
        super()._save_checkpoint(model, trial)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write the model card; see `trl`. A base model without a name is a local one."""
        super().create_model_card(*args, **kwargs)
        if self.is_world_process_zero():
            mend_model_card(Path(self.args.output_dir) / "README.md")

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """Save the policy as any program can load it, and beside it the critic and the context's settings."""
        head = self.value_head
        if head is not None and state_dict is None and not is_peft_model(self.model):
            full = self.model.state_dict()
            state_dict = {name: tensor for name, tensor in full.items() if not name.startswith("value_head.")}
        super()._save(output_dir, state_dict)
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        if self._models.scales is not None:
            if head is not None:
                save_critic(head, folder / VALUE_HEAD_WEIGHTS, self._models.scales)
            if self._models.critic is not None:
                save_critic(self._models.critic, folder / CRITIC_WEIGHTS, self._models.scales)
        ContextSettings(
            recipe=self.args.recipe,
            history_thinking=self.args.history_thinking,
            chat_template_kwargs=options(self.args.chat_template_kwargs),
            stop_token_ids=list(self.args.stop_token_ids or ()),
            stop_strings=list(self.args.stop_strings or ()),
        ).save(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        self._load_value_head(resume_from_checkpoint)

    def _load_value_head(self, folder: str) -> None:
        if self.value_head is not None and self._models.scales is not None:
            load_critic(self.value_head, Path(folder) / VALUE_HEAD_WEIGHTS, self._models.scales, resume=True)

    def _load_separate_critic(self, folder: str) -> None:
        if self._models.critic is not None and self._models.scales is not None:
            load_critic(self._models.critic, Path(folder) / CRITIC_WEIGHTS, self._models.scales, resume=True)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        # The value head is loaded apart, and tied weights never are in a file: neither is worth a warning.
        derived = derived_keys(self.model)
        missing = [key for key in load_result.missing_keys if not key.startswith("value_head.") and key not in derived]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))

    def _load_best_model(self) -> None:
        super()._load_best_model()
        best = self.state.best_model_checkpoint or ""
        self._load_value_head(best)
        self._load_separate_critic(best)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if not self.args.should_save:
            return
        if self.critic is not None:
            self.critic.save(Path(output_dir))
        assert self._updater is not None
        state = {
            "updates_per_rollout": self.args.updates_per_rollout,
            "settings": self._settings(),
            "task_sampler": self.task_sampler.state_dict(),
            "metrics": self._store.state_dict(),
            "totals": self._totals,
            "skipped": [self._updater.skipped, self._updater.skipped_in_row],
        }
        write_json(Path(output_dir) / _STATE, state, indent=None)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with keeping_settings(self.optimizer, self.lr_scheduler), unnumbered_cpu(self.args):
            super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        if self.critic is not None and self._models.scales is not None:
            self.critic.load(Path(checkpoint), self._models.scales)
        if self.value_head is not None:
            fit_rows(self.optimizer, self.value_head)
        self._load_state(_read_state(checkpoint))

    def _load_state(self, state: Mapping[str, Any]) -> None:
        if state.get("task_sampler"):
            self.task_sampler.load_state_dict(state["task_sampler"])
        self._store.load_state_dict(state["metrics"])
        self._totals.update(state["totals"])
        if self._updater is not None:
            self._updater.skipped, self._updater.skipped_in_row = state["skipped"]

    def _check_checkpoint(self, checkpoint: str) -> None:
        """Refuse a checkpoint of another run, before anything of it is loaded.

        Raises:
            ValueError: It was written with settings that make another run of it.
            FileNotFoundError: This trainer did not write it.
        """
        state = _read_state(checkpoint)
        updates = state.get("updates_per_rollout", self.args.updates_per_rollout)
        if updates != self.args.updates_per_rollout:
            raise ValueError(
                f"{checkpoint} was written with num_ppo_epochs * num_minibatches = {updates}, not "
                f"{self.args.updates_per_rollout}: the step would name another rollout. Resume with what it was"
            )
        check_resumed(checkpoint, state.get("settings"), self._settings(), say=self.is_world_process_zero())

    def _settings(self) -> dict[str, Any]:
        """What the run is made with, as JSON data."""
        sampler = self.args.task_sampler
        if sampler is None and not isinstance(self.task_sampler, TaskCursor):
            sampler = plain(self.task_sampler)
        adapters = getattr(self._models.policy, "peft_config", {})
        template = json.dumps(getattr(self.processing_class, "chat_template", None), sort_keys=True)
        settings = {
            **config_settings(self.args),
            **environment_settings(self.entries),
            "tasks": panel_settings(self.panels, self.flow.tasks),
            "task_sampler": sampler,
            "flow": plain(AgentEnvLoop if isinstance(self.flow, AsyncEnvLoop) else self.flow),  # the same episodes
            "start": start_of(self._models),
            "adapters": {
                name: {key: value for key, value in plain(adapter.to_dict()).items() if key not in _OF_FILES}
                for name, adapter in adapters.items()
            },
            "chat_template": hashlib.sha256(template.encode("utf-8", "surrogatepass")).hexdigest()[:16],
            "num_processes": self.accelerator.num_processes,
        }
        return without_secrets(settings)

    def _is_done(self, checkpoint: str) -> bool:
        """Whether a checkpoint has taken all the steps that there are; transformers would take another one."""
        return _trainer_state(checkpoint).global_step >= self._total_steps

    @property
    def _total_steps(self) -> int:
        if self.args.max_steps > 0:
            return self.args.max_steps
        return math.ceil(self.args.num_train_epochs * len(self.get_train_dataloader()))

    def _take_over(self, checkpoint: str) -> TrainOutput:
        """Load what a run that is done came to."""
        self._load_from_checkpoint(checkpoint)
        self._load_separate_critic(checkpoint)
        self._load_state(_read_state(checkpoint))
        self.state = _trainer_state(checkpoint)
        self.state.max_steps = self._total_steps
        if self.args.load_best_model_at_end and self.state.best_model_checkpoint is not None:
            self._load_best_model()
        loss = self._totals["loss"] / max(self._totals["steps"], 1)
        return TrainOutput(self.state.global_step, loss, {"train_loss": loss})


def last_whole_checkpoint(folder: str | os.PathLike[str]) -> str | None:
    """Path of the newest checkpoint that was written to its end, or None.

    A run that is killed while it saves leaves a folder without the trainer's state, which is written last.
    """
    checkpoints = []
    for path in Path(folder).glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        number = path.name.removeprefix(f"{PREFIX_CHECKPOINT_DIR}-")
        if number.isdigit() and _is_whole(path):
            checkpoints.append((int(number), str(path)))
    return max(checkpoints)[1] if checkpoints else None


def _read_state(checkpoint: str) -> dict[str, Any]:
    path = Path(checkpoint) / _STATE
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: {checkpoint} is no checkpoint to resume StepPOTrainer from")
    return json.loads(path.read_text(encoding="utf-8"))


def _trainer_state(checkpoint: str) -> TrainerState:
    return TrainerState.load_from_json(str(Path(checkpoint) / _TRAINER_STATE))


def _is_whole(path: Path) -> bool:
    try:
        json.loads((path / _TRAINER_STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True
