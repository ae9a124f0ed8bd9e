"""Panels of tasks: ordered, immutable, with stable ids and a content hash."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, overload

from agent_r1_envs.names import did_you_mean

__all__ = ["TaskSet"]

TaskT = TypeVar("TaskT")


class TaskSet(Sequence[TaskT], Generic[TaskT]):
    """One split of a data set: the tasks of a panel in their fixed order.

    Args:
        tasks: The tasks, dataclasses or plain JSON data; shared, never copied or changed.
        dataset: Name of the data, ``"synthetic"`` for an embedded panel.
        split: Name of the split, such as ``"train"``.
        ids: One id a task, unique in the split.
        content_hash: SHA-256 in hex, for a loader that knows it already; computed on demand otherwise.

    Raises:
        ValueError: If there is no task, or the ids are not one distinct string a task.

    Example:
        >>> panel = TaskSet(["1 + 1", "2 + 3"], dataset="synthetic", split="test", ids=["a", "b"])
        >>> panel[panel.index_of("b")]
        '2 + 3'
    """

    def __init__(
        self,
        tasks: Sequence[TaskT],
        *,
        dataset: str,
        split: str,
        ids: Sequence[str],
        content_hash: str | None = None,
    ) -> None:
        self._tasks: tuple[TaskT, ...] = tuple(tasks)
        self._ids = tuple(ids)
        self._dataset = dataset
        self._split = split
        self._content_hash = content_hash
        if not self._tasks:
            raise ValueError(f"split {split!r} of {dataset!r} holds no task")
        if len(self._ids) != len(self._tasks):
            raise ValueError(f"{len(self._tasks)} tasks need as many ids, got {len(self._ids)}")
        self._positions: dict[str, int] = {}
        for position, task_id in enumerate(self._ids):
            if not isinstance(task_id, str):
                raise ValueError(f"task {position}: an id is a string, got {task_id!r}")
            if self._positions.setdefault(task_id, position) != position:
                raise ValueError(f"tasks {self._positions[task_id]} and {position} share the id {task_id!r}")

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, in the order of the tasks."""
        return self._ids

    @property
    def task_types(self) -> Sequence[str] | None:
        """Type of each task, its `task_type`, in their order; None where tasks have none."""
        types = tuple(str(getattr(task, "task_type", "") or "") for task in self._tasks)
        return types if any(types) else None

    @property
    def dataset(self) -> str:
        """Name of the data set; ``"synthetic"`` for embedded panels."""
        return self._dataset

    @property
    def split(self) -> str:
        """Name of the split."""
        return self._split

    @property
    def content_hash(self) -> str:
        """SHA-256, in hex, of the canonical JSON of split, ids and tasks: equal hashes mean equal panels."""
        if self._content_hash is None:
            digest = hashlib.sha256(_canonical([self._dataset, self._split]))
            for task_id, task in zip(self._ids, self._tasks, strict=True):
                digest.update(b"\n" + _canonical([task_id, task]))
            self._content_hash = digest.hexdigest()
        return self._content_hash

    def index_of(self, task_id: str) -> int:
        """Return the position of the task called ``task_id``.

        Raises:
            KeyError: If there is none; the message names the nearest ids.
        """
        try:
            return self._positions[task_id]
        except KeyError:
            hint = did_you_mean(task_id, self._ids, form=repr)
            raise KeyError(f"no task {task_id!r} in split {self._split!r} of {self._dataset!r}{hint}") from None

    @overload
    def __getitem__(self, index: int) -> TaskT: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TaskT, ...]: ...
    def __getitem__(self, index: int | slice) -> TaskT | tuple[TaskT, ...]:
        return self._tasks[index]

    def __len__(self) -> int:
        return len(self._tasks)

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskSet[TaskT]:
        return self  # a copied env shares the panel too

    def __repr__(self) -> str:
        return f"TaskSet({len(self)} tasks, dataset={self._dataset!r}, split={self._split!r})"


def _canonical(value: Any) -> bytes:
    """Encode JSON data and dataclasses so that equal values give equal bytes on every machine."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_plain)
    return text.encode("ascii")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"a task is made of JSON data and dataclasses, not {type(value).__name__}")
