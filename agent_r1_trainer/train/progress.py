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
        self._success = ""

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
            self._success = f"success {logs['success']:.2f} in training"
            if self._progress is not None:
                self._progress.update(self._bar, description=self._success)
        if "eval_success" in logs:
            line = f"update {state.global_step:>5}: {self._success:<24} {logs['eval_success']:.3f} on held-out tasks"
            self._console.print(f"{line}, {logs['eval_turns/mean']:.2f} turns, {seconds:.0f} s", markup=False)

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
