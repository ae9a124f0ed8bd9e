"""Checkpoints and stops lie between rollouts.

Between two updates of the same rollout a checkpoint would have to hold the rollout, and a resumed run would shift the
phase of all that follow. So a save that is asked for in between waits for the rollout's last update, and so does the
SIGTERM of a cluster that wants its machine back.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

from accelerate import Accelerator
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from agent_r1_trainer.learning.distributed import any_rank

__all__ = ["BoundaryCallback"]


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
