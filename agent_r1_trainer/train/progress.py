"""What a person sees of a run, and what its metrics file gets."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from agent_r1_trainer.train.folder import RunFolder
from agent_r1_trainer.train.update_bar import UpdateBar

__all__ = ["ProgressReporter"]


class ProgressReporter(UpdateBar):
    """Writes every log to `metrics.jsonl`, moves a bar, and prints a line an evaluation.

    Args:
        folder: Of the run.
        console: Where bar and lines go.
    """

    def __init__(self, folder: RunFolder, console: Console) -> None:
        super().__init__("training", console)
        self._folder = folder
        self._started = time.perf_counter()
        self._success = "before training"

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write the log, and say how it goes."""
        if not state.is_world_process_zero or not logs:
            return
        seconds = round(time.perf_counter() - self._started, 2)
        self._folder.append({"step": state.global_step, "seconds": seconds, **logs})
        if "success" in logs:
            self._success = f"{logs['success']:.2f} in training, {logs['turns/mean']:.1f} turns"
            self.describe(f"success {self._success}")
        if "eval_success" in logs:
            where = f"update {state.global_step:>5} of {state.max_steps}, {seconds:>4.0f} s"
            line = f"{where}: {logs['eval_success']:.2f} on validation tasks, {self._success}"
            self._console.print(line, markup=False, soft_wrap=True)
