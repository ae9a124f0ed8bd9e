"""What a person sees of a run and of its warm start, and what their metrics files get."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from agent_r1_trainer.flows import RolloutProgress
from agent_r1_trainer.train.folder import RunFolder

__all__ = ["ProgressReporter", "UpdateBar", "WarmProgress"]


class UpdateBar(TrainerCallback):
    """Shows how many updates are done; `describe` says how they go.

    Args:
        title: What stands before the bar at first.
        console: Where the bar goes; one that is no terminal gets none.
    """

    def __init__(self, title: str, console: Console) -> None:
        self._title = title
        self._console = console
        self._progress: Progress | None = None
        self._bar: Any = None

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
        self._bar = self._progress.add_task(self._title, total=state.max_steps, completed=state.global_step)
        self._progress.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Move the bar."""
        if self._progress is not None:
            self._progress.update(self._bar, completed=state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Remove the bar."""
        self.close()

    def describe(self, text: str) -> None:
        """Put `text` before the bar."""
        if self._progress is not None:
            self._progress.update(self._bar, description=text)

    def close(self) -> None:
        """Remove the bar, also when training was broken off."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class WarmProgress(UpdateBar):
    """Writes every log to a file and moves a bar.

    Args:
        path: The file of metrics; one line a log, flushed as it is written.
        console: Where the bar goes.
    """

    def __init__(self, path: Path, console: Console) -> None:
        super().__init__("warm start", console)
        self._path = path
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
        super().on_train_begin(args, state, control, **kwargs)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Count the step and move the bar."""
        self._steps = state.global_step
        super().on_step_end(args, state, control, **kwargs)

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
            self.describe(f"warm start, loss {logs['loss']:.3f}")


class ProgressReporter(UpdateBar):
    """Writes every log to `metrics.jsonl`, moves a bar, and prints a line an evaluation.

    While a rollout runs the bar says how far it is, once its flow has `watch_rollout` as `watch`.

    Args:
        folder: Of the run.
        console: Where bar and lines go.
    """

    def __init__(self, folder: RunFolder, console: Console) -> None:
        super().__init__("training", console)
        self._folder = folder
        self._started = time.perf_counter()
        self._success = "before training"

    def watch_rollout(self, progress: RolloutProgress) -> None:
        """Say how far a rollout is, and when it is over how the run goes."""
        self.describe(f"success {self._success}" if progress.ended else f"rollout: {progress}")

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
