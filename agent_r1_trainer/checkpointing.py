"""What a checkpoint holds beyond the weights of the policy, and how a run finds the last whole one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

__all__ = ["last_whole_checkpoint", "read_state", "write_state"]

_STATE = "steppo_state.json"
_TRAINER_STATE = "trainer_state.json"


def last_whole_checkpoint(folder: str | Path) -> str | None:
    """Path of the newest checkpoint that was written to its end, or None.

    A run that is killed while it saves leaves a folder without the trainer's state, which is written last.
    """
    checkpoints = []
    for path in Path(folder).glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        number = path.name.removeprefix(f"{PREFIX_CHECKPOINT_DIR}-")
        if number.isdigit() and _is_whole(path):
            checkpoints.append((int(number), str(path)))
    return max(checkpoints)[1] if checkpoints else None


def write_state(folder: str | Path, state: dict[str, Any]) -> None:
    """Write plain data into a checkpoint; floats keep all their digits, NaN and infinity included."""
    path = Path(folder) / _STATE
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(state), encoding="utf-8")
    os.replace(temporary, path)


def read_state(folder: str | Path) -> dict[str, Any]:
    """Read what `write_state` wrote.

    Raises:
        FileNotFoundError: If the folder is no checkpoint of this trainer.
    """
    path = Path(folder) / _STATE
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: {folder} is no checkpoint of StepPOTrainer")
    return json.loads(path.read_text(encoding="utf-8"))


def _is_whole(path: Path) -> bool:
    try:
        json.loads((path / _TRAINER_STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True
