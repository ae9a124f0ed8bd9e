"""The embedded panel: thousands of generated households."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

from agent_r1_envs.alfworld.generator import DIFFICULTIES, PANEL, difficulty_of
from agent_r1_envs.alfworld.model import TASK_TYPES
from agent_r1_envs.alfworld.records import canonical
from agent_r1_envs.alfworld.tasks import GeneratedTask, HouseholdTask
from agent_r1_envs.tasks import TaskSet

__all__ = ["HASHES", "content_hash", "load_panel"]

DATASET: Final = "synthetic"

HASHES: Final = {
    "train": "ac47df8e45196d9754fd014de0213ab4ffa319b302ab21c8733015eac6273ad4",
    "valid_seen": "f2a8141935b7de5c6ea1099c1e92693e66a23ea5c6753f6484a00ce340a7a43b",
    "valid_unseen": "4df8ddda1641e720a3700f5cd53ffb4bd1ad28a014e2019453af0793947e28bc",
}
"""What :func:`content_hash` gives for each split of the panel; making all its games would take a second."""


def load_panel(
    split: str,
    *,
    games: int | None = None,
    seed: int = 0,
    difficulty: str | Mapping[str, Any] = "standard",
    task_types: Sequence[str] = TASK_TYPES,
) -> TaskSet[HouseholdTask]:
    """Return generated tasks.

    Args:
        split: ``train``, ``valid_seen`` or ``valid_unseen``.
        games: How many; None for as many as the embedded panel has.
        seed: Any integer; 0 for the embedded panel.
        difficulty: A name or ranges.
        task_types: The task types, which come in turn.

    Raises:
        ValueError: An argument is out of its range.
    """
    number, default_seed = PANEL[split]
    count = number if games is None else games
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1_000_000:
        raise ValueError(f"games must be a number from 1 to 1,000,000, got {games!r}")
    how = difficulty_of(difficulty)
    tasks: list[HouseholdTask] = [
        GeneratedTask(split, n, seed, how, task_types[n % len(task_types)]) for n in range(count)
    ]
    ids = [task.id for task in tasks]
    digest = HASHES[split]
    if (count, seed, how, tuple(task_types)) != (number, default_seed, DIFFICULTIES["standard"], TASK_TYPES):
        # The hash of the panel stands for the version of the generator.
        recipe = json.dumps([digest, split, count, seed, astuple(how), list(task_types)])
        digest = hashlib.sha256(recipe.encode("ascii")).hexdigest()
    return TaskSet(tasks, dataset=DATASET, split=split, ids=ids, content_hash=digest)


def content_hash(tasks: TaskSet[HouseholdTask]) -> str:
    """Make every game and return the SHA-256 of their canonical JSON."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(f"{task.id}\n".encode("ascii"))
        digest.update(canonical(task.load()))
    return digest.hexdigest()
