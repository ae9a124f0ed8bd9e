"""The folder of a run: what is in it, and whether a command may write into it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_r1_trainer.trajectory import Trajectory

__all__ = ["RunFolder"]


class RunFolder:
    """Files of a run.

    * `settings.json`: what was asked for, written first;
    * `metrics.jsonl`: one line a log, flushed as it is written;
    * `checkpoint-<step>/`: to resume from; `model/`: the trained policy;
    * `trajectories/<name>.jsonl`: the episodes of the exam;
    * `curve.png`, and `report.json`, which is written last: its presence says that the run is complete.

    Args:
        path: Made if missing.
        manifest: The settings as plain data.

    Raises:
        ValueError: The folder holds a run of other settings.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.report = path / "report.json"
        self.model = path / "model"
        self.curve = path / "curve.png"
        self._manifest = path / "settings.json"
        wanted = json.loads(json.dumps(manifest))
        if self._manifest.exists():
            found = json.loads(self._manifest.read_text(encoding="utf-8"))
            if found != wanted:
                names = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
                raise ValueError(
                    f"{path} holds a run of other settings ({', '.join(names)}): choose another --out or remove it"
                )
        self._wanted = wanted

    @property
    def complete(self) -> bool:
        """Whether the run was finished."""
        return self.report.exists()

    def open(self) -> None:
        """Make the folder and note the settings."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self._manifest, self._wanted)

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that a resumed run will do again; a half-written last line goes too."""
        kept = [json.dumps(row) + "\n" for row in self.rows() if row["step"] <= step]
        self.metrics.write_text("".join(kept), encoding="utf-8")

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a line to the metrics; whoever reads the file now sees it."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        """The metrics so far."""
        rows = []
        if self.metrics.exists():
            for line in self.metrics.read_text(encoding="utf-8").splitlines():
                try:
                    rows.append(json.loads(line))
                except ValueError:  # the line that was being written when the run was killed
                    continue
        return rows

    def write_trajectories(self, name: str, trajectories: Sequence[Trajectory], tokenizer: Any) -> None:
        """Write episodes as text, one a line, and of each prompt only what is new in it."""
        folder = self.path / "trajectories"
        folder.mkdir(exist_ok=True)
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for trajectory in trajectories:
                file.write(json.dumps(_readable(trajectory, tokenizer), ensure_ascii=False) + "\n")


def write_json(path: Path, value: Any) -> None:
    """Write JSON in one step: nobody sees half a file."""
    scratch = path.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    os.replace(scratch, path)


def _readable(trajectory: Trajectory, tokenizer: Any) -> dict[str, Any]:
    turns, known = [], 0
    for step in trajectory.steps:
        new = step.prompt_ids[known if step.extends else 0 :]
        known = len(step.prompt_ids) + len(step.response_ids)
        turns.append(
            {"prompt": tokenizer.decode(new), "reply": step.text, "reward": step.reward, "invalid": step.invalid}
        )
    return {
        "task_id": trajectory.task_id,
        "success": trajectory.success,
        "score": trajectory.score,
        "stop": trajectory.stop.value,
        "turns": turns,
    }
