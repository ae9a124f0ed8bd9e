"""Episodes to look at: a table for the eye, a file for later, and the loggers that take tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent_r1_envs.text import clean
from agent_r1_trainer.learning.experience import Experience
from agent_r1_trainer.packing import continues
from agent_r1_trainer.trajectory import Step

__all__ = ["episode_rows", "log_tables", "show_rows", "write_rows"]

_CUT = 400


def episode_rows(experience: Experience, tokenizer: Any, step: int) -> list[dict[str, Any]]:
    """One row for each turn of this rank's episodes.

    Args:
        experience: The rollout.
        tokenizer: Decodes the prompts. A prompt that extends the last one is given without what it repeats.
        step: The optimizer step that the rows are logged at.
    """
    rows = []
    for number, trajectory in enumerate(experience.trajectories):
        before: Step | None = None
        for turn, item in enumerate(trajectory.steps):
            at = experience.layout.step(number, turn)
            repeated = 0
            if before is not None and continues(before, item):
                repeated = len(before.prompt_ids) + len(before.response_ids)
            rows.append(
                {
                    "step": step,
                    "task_id": f"{trajectory.env}/{trajectory.task_id}" if trajectory.env else trajectory.task_id,
                    "sample": trajectory.sample,
                    "turn": turn,
                    "prompt": tokenizer.decode(item.prompt_ids[repeated:]),
                    "completion": item.text,
                    "reward": item.reward,
                    "advantage": experience.of_step(experience.advantages, at),
                    "value": experience.value_of_step(at, trajectory.env),
                    "success": trajectory.success,
                    "stop": trajectory.stop.value,
                }
            )
            before = item
    return rows


def write_rows(rows: Sequence[dict[str, Any]], folder: Path, step: int) -> Path:
    """Write the rows as JSON lines into `folder/completions`; returns the file."""
    path = folder / "completions" / f"completions-{step:06d}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def show_rows(rows: Sequence[dict[str, Any]], episodes: int, console: Console | None = None) -> None:
    """Print the first episodes of the rows as a table."""
    table = Table("task", "turn", "prompt", "completion", "reward", "advantage", show_lines=True)
    table.title = f"step {rows[0]['step']}" if rows else None
    shown: list[tuple[Any, Any]] = []
    for row in rows:
        episode = (row["task_id"], row["sample"])
        if episode not in shown:
            if len(shown) == episodes:
                break
            shown.append(episode)
        cells = map(clean, (row["prompt"], row["completion"]))  # control characters would speak to the terminal
        texts = [cell if len(cell) <= _CUT else f"{cell[: _CUT // 2]} … {cell[-_CUT // 2 :]}" for cell in cells]
        # As Text, since rich would read the square brackets of a command as markup.
        numbers = [f"{row['reward']:.2f}", f"{row['advantage']:+.2f}"]
        table.add_row(*(Text(cell) for cell in (row["task_id"], str(row["turn"]), *texts, *numbers)))
    (console or Console(file=sys.stdout)).print(table)


def log_tables(rows: Sequence[dict[str, Any]], report_to: Sequence[str]) -> None:
    """Give the rows to Weights & Biases and trackio, if the run reports to them."""
    if not rows or not {"wandb", "trackio"} & set(report_to):
        return
    frame = import_module("pandas").DataFrame(rows)
    if "wandb" in report_to:
        wandb = import_module("wandb")
        if wandb.run is not None:
            wandb.log({"completions": wandb.Table(dataframe=frame)})
    if "trackio" in report_to:
        trackio = import_module("trackio")
        trackio.log({"completions": trackio.Table(dataframe=frame)})
