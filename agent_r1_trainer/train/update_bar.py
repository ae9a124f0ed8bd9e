"""A bar that moves with the optimizer steps of a trainer of transformers."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

__all__ = ["UpdateBar"]


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
