"""What envs share: the tasks of a split, and the shop and judge of a catalogue, each made once a process."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from agent_r1_envs.cache import make_once
from agent_r1_envs.webshop.catalogue.catalogue import Catalogue
from agent_r1_envs.webshop.catalogue.goals import GoalKind, WeightedSampler
from agent_r1_envs.webshop.pages.rules import Rules
from agent_r1_envs.webshop.reward import Judge, RewardKind
from agent_r1_envs.webshop.shop import Shop
from agent_r1_envs.webshop.tasks import GoalTasks

__all__ = ["Panel", "Sampling", "load_judge", "load_panel", "load_shop"]

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
