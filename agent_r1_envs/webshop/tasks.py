"""A split's goals as a panel of tasks that makes each goal when it is asked for.

The full catalogue has millions of synthetic goals: a list of them would take more memory than everything else. Panels,
and the shop and the judge of a catalogue, are made once a process and shared by its environments.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, get_args, overload

import numpy as np

from agent_r1_envs.cache import make_once
from agent_r1_envs.names import did_you_mean
from agent_r1_envs.tasks import TaskSet
from agent_r1_envs.webshop.catalogue.catalogue import Catalogue
from agent_r1_envs.webshop.catalogue.data import Goal
from agent_r1_envs.webshop.catalogue.goals import GoalKind, WeightedSampler
from agent_r1_envs.webshop.pages.rules import Rules
from agent_r1_envs.webshop.reward import Judge, RewardKind
from agent_r1_envs.webshop.shop import Shop

__all__ = ["Panel", "Sampling", "load_judge", "load_panel", "load_shop"]

_FILES: Final = {"human": "human instructions (items_human_ins.json)", "synthetic": "attributes (items_ins_v2.json)"}
_REMEMBERED: Final = 4096
_COMPARABLE: Final = 50_000  # ids among which a mistyped one is looked for
Sampling = Literal["uniform", "weighted", "original"]


class Panel:
    """The goals of a split.

    Args:
        catalogue: The catalogue.
        kind: The kind of the goals.
        split: The split.

    Attributes:
        kind: The kind.
        tasks: The goals of the split.
        places: Their places among all goals of the kind.

    Raises:
        ValueError: There is no such split, or it holds no goal.
    """

    def __init__(self, catalogue: Catalogue, kind: GoalKind, split: str) -> None:
        self.kind = kind
        self.tasks = GoalTasks(catalogue, kind, split)
        self.places = self.tasks.places
        self._catalogue = catalogue
        self._samplers: dict[tuple[tuple[int, int], bool], WeightedSampler] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Panel:
        return self  # nothing in it changes

    def draw(self, fraction: float, shard: tuple[int, int], *, original: bool) -> int:
        """Return the position in the split that a number from [0, 1) falls on, by weight.

        Args:
            fraction: The number.
            shard: ``(i, n)``: the positions ``i, i + n, ...``.
            original: Whether to draw as the original does (see
                :class:`~agent_r1_envs.webshop.catalogue.goals.WeightedSampler`).
        """
        index, count = shard
        sampler = self._samplers.get((shard, original))
        if sampler is None:
            weights = self._catalogue.goals(self.kind).weights()[np.asarray(self.places)]
            sampler = WeightedSampler(weights[index::count], original=original)
            self._samplers[shard, original] = sampler
        return index + count * sampler.draw(fraction)


class GoalTasks(TaskSet[Goal]):
    """The goals of a split.

    Its content hash is that of catalogue, seed, kind and split, which decide every goal.

    Args:
        catalogue: The catalogue.
        kind: The kind of the goals.
        split: The split; ``validation`` is another name of ``eval``.

    Attributes:
        places: The places of the goals among all of their kind, ascending.

    Raises:
        ValueError: There is no such kind or split, or the split holds no goal.
    """

    def __init__(self, catalogue: Catalogue, kind: GoalKind, split: str) -> None:
        split = "eval" if split == "validation" else split
        self._goals = catalogue.goals(kind)
        self.places = self._goals.places(split)
        if not len(self._goals):
            raise ValueError(
                f"{catalogue.dataset!r} has no {kind} goals: they come from the file of {_FILES[kind]}. Pass the "
                "folder that holds it as data=, or name each file: data={'products': .., 'attributes': .., 'human': ..}"
            )
        if not self.places:
            raise ValueError(
                f"split {split!r} of the {len(self._goals)} {kind} goals of {catalogue.dataset!r} holds no goal"
            )
        self._dataset, self._split = catalogue.dataset, split
        identity = [catalogue.dataset, catalogue.content_hash, catalogue.seed, kind, split]
        self._content_hash = hashlib.sha256(json.dumps(identity).encode("ascii")).hexdigest()
        self._made: dict[int, Goal] = {}

    @property
    def ids(self) -> Sequence[str]:  # type: ignore[override]  # a tuple of millions is what this class avoids
        """The ids, in the order of the tasks."""
        return _Ids(self)

    @property
    def task_types(self) -> None:
        """Goals have no types."""
        return None

    def index_of(self, task_id: str) -> int:
        """Return the position of the goal called ``task_id``.

        Raises:
            KeyError: If there is none; the message names the nearest ids.
        """
        place = self._goals.place_of(task_id)
        if place is not None:
            position = bisect_left(self.places, place)
            if position < len(self) and self.places[position] == place:
                return position
        hint = did_you_mean(task_id, self.ids, form=repr) if len(self) <= _COMPARABLE else ""
        raise KeyError(f"no task {task_id!r} in split {self._split!r} of {self._dataset!r}{hint}")

    @overload
    def __getitem__(self, index: int) -> Goal: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Goal, ...]: ...
    def __getitem__(self, index: int | slice) -> Goal | tuple[Goal, ...]:
        if isinstance(index, slice):
            return tuple(self[position] for position in range(len(self))[index])
        place = self.places[index]
        goal = self._made.get(place)
        if goal is None:
            if len(self._made) >= _REMEMBERED:
                self._made.pop(next(iter(self._made)), None)
            goal = self._made[place] = self._goals[place]
        return goal

    def __len__(self) -> int:
        return len(self.places)


class _Ids(Sequence[str]):
    """The ids of goals, each read off its goal."""

    def __init__(self, tasks: GoalTasks) -> None:
        self._tasks = tasks

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        found = self._tasks[index]
        return found.id if isinstance(found, Goal) else tuple(goal.id for goal in found)

    def __iter__(self) -> Iterator[str]:
        return (goal.id for goal in self._tasks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]  # it is compared by its content


def load_panel(catalogue: Catalogue, kind: GoalKind, split: str) -> Panel:
    """Return the goals of a split, made once a process.

    Raises:
        ValueError: There is no such kind or split, or the split holds no goal.
    """
    key = ("webshop panel", catalogue.content_hash, catalogue.seed, kind, split)
    return make_once(key, lambda: Panel(catalogue, kind, split))


def load_shop(catalogue: Catalogue, rules: Rules, show_attrs: bool) -> Shop:
    """Return the shop of a catalogue under some rules, made once a process."""
    key = ("webshop shop", catalogue.content_hash, rules, show_attrs)
    return make_once(key, lambda: Shop(catalogue, rules, show_attrs=show_attrs))


def load_judge(catalogue: Catalogue, kind: RewardKind) -> Judge:
    """Return the judge of a catalogue, made once a process.

    Raises:
        ValueError: There is no such reward.
    """
    if kind not in get_args(RewardKind):
        raise ValueError(f"reward must be one of {', '.join(get_args(RewardKind))}; got {kind!r}")
    key = ("webshop judge", catalogue.content_hash, catalogue.seed, kind)
    return make_once(key, lambda: Judge(catalogue, kind))
