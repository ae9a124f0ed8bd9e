"""The folder of a run: what is in it, and whether a command may write into it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_r1_envs.files import write_json
from agent_r1_envs.services.secrecy import without_secrets
from agent_r1_trainer.files import read_manifest, refuse_another, run_lock
from agent_r1_trainer.trainer.resuming import Difference, compare_settings
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["RunFolder"]

_WAY_OUT = "choose another --out or remove it"


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

    Attributes:
        changed: Settings that the run goes on with instead of those that it was begun with.
        lock: Held while a run is written.

    Raises:
        ManifestError: The folder holds a run of other settings, or is complete and was made with other ones.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.report = path / "report.json"
        self.model = path / "model"
        self.curve = path / "curve.png"
        self._manifest = path / "settings.json"
        self._wanted = without_secrets(json.loads(json.dumps(manifest)))
        self.lock = run_lock(path)
        self.changed: tuple[Difference, ...] = ()
        found = read_manifest(self._manifest, _WAY_OUT)
        if found is None:
            return
        refused, self.changed = compare_settings(_flat(found), _flat(self._wanted))
        if self.complete:
            refused += self.changed
        refuse_another(path, "a complete run" if self.complete else "a run", refused, _WAY_OUT)

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


def _flat(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run by name; a field that was left out has its default."""
    from agent_r1_trainer.steppo_config import StepPOConfig

    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(StepPOConfig):
        if field.init:
            made = None if field.default_factory is dataclasses.MISSING else field.default_factory()
            defaults[field.name] = made if field.default is dataclasses.MISSING else field.default
    given = manifest.get("training", {})
    plain = json.loads(json.dumps({name: value for name, value in defaults.items() if name not in given}, default=str))
    return {**plain, **given, **{name: value for name, value in manifest.items() if name != "training"}}


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
