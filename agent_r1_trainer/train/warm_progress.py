"""What a person sees of a warm start, and what its metrics file gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

__all__ = ["WarmProgress"]


class WarmProgress(TrainerCallback):
    """Writes every log to a file and moves a bar.

    Args:
        path: The file of metrics; one line a log, flushed as it is written.
        console: Where the bar goes.
    """

    def __init__(self, path: Path, console: Console) -> None:
        self._path = path
        self._console = console
        self._progress: Progress | None = None
        self._bar: Any = None
        self._losses: list[float] = []
        self._steps = 0

    @property
    def summary(self) -> str:
        """How it went, in a few words."""
        losses = f", loss {self._losses[0]:.3f} -> {self._losses[-1]:.3f}" if self._losses else ""
        return f"{self._steps} updates{losses}"

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the bar and the file, at the step that a resumed call goes on from."""
        if not state.is_world_process_zero:
            return
        self._losses = [row["loss"] for row in state.log_history if "loss" in row]
        self._path.write_text("".join(json.dumps(row) + "\n" for row in state.log_history), encoding="utf-8")
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("updates"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._bar = self._progress.add_task("warm start", total=state.max_steps, completed=state.global_step)
        self._progress.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Move the bar."""
        self._steps = state.global_step
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
        """Write the log, and show the loss."""
        if not state.is_world_process_zero or not logs:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**logs, "step": state.global_step}) + "\n")
        if "loss" in logs:
            self._losses.append(logs["loss"])
            if self._progress is not None:
                self._progress.update(self._bar, description=f"warm start, loss {logs['loss']:.3f}")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Remove the bar."""
        self.close()

    def close(self) -> None:
        """Remove the bar, also when the warm start was broken off."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
