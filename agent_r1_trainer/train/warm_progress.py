"""What a person sees of a warm start, and what its metrics file gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from agent_r1_trainer.train.update_bar import UpdateBar

__all__ = ["WarmProgress"]


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
