"""What a run was made with, so that a folder never holds episodes of two different runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agent_r1_envs.files import write_json
from agent_r1_envs.moved import current_entry_points
from agent_r1_envs.services.secrecy import public_address, without_secrets
from agent_r1_trainer.files import JsonLines, ManifestError, read_manifest, refuse_another
from agent_r1_trainer.trainer.resuming import differences

__all__ = ["CHOICE", "claim_folder", "plays_choice"]

FORMAT = "agent-r1-bench"
VERSION = 1
CHOICE = "by type and id"
"""How the tasks of a run of some of them are chosen; earlier versions, which say nothing, took the first ones."""
_WAY_OUT = "choose another --out"
_FREE = frozenset({"agent_r1", "task_ids"})  # may differ between the parts of one run


def plays_choice(folder: Path) -> bool:
    """Whether a run in this folder chooses its tasks: one that was begun with the first ones goes on with these.

    Raises:
        ManifestError: The manifest is damaged.
    """
    manifest = _read(folder)
    return manifest is None or "choice" in manifest


def claim_folder(
    folder: Path, settings: dict[str, Any], *, empty: bool = False, noted: Mapping[str, Any] | None = None
) -> bool:
    """Make ``folder`` the home of a run with these settings, or check that it is.

    Args:
        folder: Made when missing.
        settings: JSON data that decides what the episodes are.
        empty: No episode was finished there: a run with other settings that never got going is replaced.
        noted: What is written down too, and may change.

    Returns:
        Whether a run with these settings was begun there before.

    Raises:
        ManifestError: The folder holds a run with other settings, or a damaged manifest.
        LockError: Another run is writing there.
    """
    path = folder / "manifest.json"
    mine = without_secrets(
        {"format": FORMAT, "version": VERSION, "agent_r1": _own_version(), **settings, **(noted or {})}
    )
    log, theirs = folder / "episodes.jsonl", _read(folder)
    if theirs is not None:
        now = current_entry_points(json.loads(json.dumps(mine)))
        differing = [d for d in differences(current_entry_points(theirs), now) if d.name not in _FREE]
        if not differing:
            if noted and any(theirs.get(name) != value for name, value in noted.items()):
                write_json(path, {**theirs, **noted})
            return True
        if not empty:
            refuse_another(folder, "a run", differing, _WAY_OUT)
        with JsonLines(log):  # refuses while the other run is still at work
            pass
    elif log.exists():
        raise ManifestError(f"{folder} holds episodes but no manifest.json that says what they are; {_WAY_OUT}")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, mine)
    return False


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / "manifest.json"
    manifest = read_manifest(path, _WAY_OUT)
    if manifest is None:
        return None
    if manifest.get("format") != FORMAT:
        raise ManifestError(f"{path} is not the manifest of a benchmark run; {_WAY_OUT}")
    if isinstance(manifest.get("agent"), str):
        manifest["agent"] = public_address(manifest["agent"])
    return without_secrets(manifest)  # which earlier versions wrote down


def _own_version() -> str:
    try:
        return version("agent-r1")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
