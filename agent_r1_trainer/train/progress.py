"""What a person sees of a run, and what its metrics file gets."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from agent_r1_trainer.train.folder import RunFolder

__all__ = ["ProgressReporter"]


class ProgressReporter(TrainerCallback):
    """Writes every log to `metrics.jsonl`, moves a bar, and prints a line an evaluation.

    Args:
        folder: Of the run.
        console: Where bar and lines go.
    """

    def __init__(self, folder: RunFolder, console: Console) -> None:
        self._folder = folder
        self._console = console
        self._progress: Progress | None = None
        self._bar: Any = None
        self._started = time.perf_counter()
        self._success = "before training"

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the bar, at the step that a resumed run goes on from."""
        if not state.is_world_process_zero:
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("updates"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._bar = self._progress.add_task("training", total=state.max_steps, completed=state.global_step)
        self._progress.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Move the bar."""
        if self._progress is not None:
            self._progress.update(self._bar, completed=state.global_step)

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
            if self._progress is not None:
                self._progress.update(self._bar, description=f"success {self._success}")
        if "eval_success" in logs:
            where = f"update {state.global_step:>5} of {state.max_steps}, {seconds:>4.0f} s"
            line = f"{where}: {logs['eval_success']:.2f} on validation tasks, {self._success}"
            self._console.print(line, markup=False, soft_wrap=True)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Remove the bar."""
        self.close()

    def close(self) -> None:
        """Remove the bar, also when training was broken off."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
