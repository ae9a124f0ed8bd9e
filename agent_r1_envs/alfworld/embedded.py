"""The embedded panel: thousands of generated households."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

from agent_r1_envs.alfworld.game.model import TASK_TYPES
from agent_r1_envs.alfworld.generator.generator import DIFFICULTIES, PANEL, difficulty_of
from agent_r1_envs.alfworld.official.store import canonical
from agent_r1_envs.alfworld.tasks import GeneratedTask, HouseholdTask
from agent_r1_envs.tasks import TaskSet

__all__ = ["HASHES", "content_hash", "load_panel"]

DATASET: Final = "synthetic"

HASHES: Final = {
    "train": "d8f2fbef59e079e689935555c62f59960c7c27a9064178e6694ff95ec905be9e",
    "valid_seen": "4a345e7d0f32dffa2be6eb0c3b6c46fe62186dd5cc0ba7c01e0e06aad18a699a",
    "valid_unseen": "a6f2bddd227953b51fe7d81fd9956ee2c17b4567bf9d6cdf92882abd6e2f2613",
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
