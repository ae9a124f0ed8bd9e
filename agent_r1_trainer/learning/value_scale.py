"""The units that a critic predicts in (PopArt, van Hasselt et al. 2016, arXiv 1602.07714), for each environment.

A linear head that starts at 0 has to learn the mean of its targets before it can tell states apart. Where that mean is
far from 0 compared with the spread, the value loss fills the clipped gradient of a shared trunk and the policy learns
nothing. So a head predicts ``n = (V - mean) / scale`` with the running moments of its targets: what it has to learn is
of size 1 whatever the rewards are, and before it has learned anything ``V`` is the mean. When the moments move, the
head's weights are changed so that every ``V`` stays what it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_r1_trainer.credit import Moments

__all__ = ["SCALE_ONLY", "Units", "ValueScales"]


@dataclass(frozen=True, slots=True)
class Units:
    """A head that predicts ``n`` in these units means the value ``mean + scale * n``.

    Attributes:
        mean: What a prediction of 0 means.
        scale: What a difference of 1 means, above 0.
    """

    mean: float = 0.0
    scale: float = 1.0

    def change(self, to: Units) -> tuple[float, float]:
        """Factor and shift that turn a prediction in these units into the one in others that means the same value."""
        return self.scale / to.scale, (self.mean - to.mean) / to.scale


SCALE_ONLY = Units(0.0, math.nan)
"""Of a head whose values were divided by the deviation of returns, which was not saved with it."""


class ValueScales:
    """The units of each row of a value head, and the running moments of the targets that they follow.

    Every rank updates with the same targets (those of all ranks) and so holds the same state.

    Args:
        envs: The environments by name, one row each, in this order.
    """

    def __init__(self, envs: Sequence[str] = ("",)) -> None:
        self.rows = {env: row for row, env in enumerate(envs)}
        self._moments = dict.fromkeys(self.rows, Moments())
        self._units: dict[str, Units | None] = dict.fromkeys(self.rows)

    def units(self, env: str) -> Units | None:
        """What the row of an environment predicts in; None if it has not learned anything yet."""
        return self._units[env]

    def update(self, env: str, targets: Iterable[float]) -> tuple[Units, Units]:
        """Take in an environment's part of a batch, before its values are used.

        Targets that are not finite are left out: a single one would stay in the moments for the rest of the run.

        Args:
            env: Name of the environment, empty where there is one only.
            targets: The discounted returns that the critic is to predict, of all ranks.

        Returns:
            The units of the row until now, and from now on. They are equal the first time: a row that has learned
            nothing means the mean of the targets.
        """
        before = self.units(env)
        self._moments[env] = moments = self._moments[env].merge(Moments.of(x for x in targets if math.isfinite(x)))
        if moments.count == 0:
            return before or Units(), before or Units()
        if before is not None and math.isnan(before.scale):
            before = Units(0.0, _scale(moments, None))
        after = Units(moments.mean, _scale(moments, before))
        self._units[env] = after
        return before or after, after

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Return the state as plain data, an entry a row, in order."""
        return {
            env: {
                "count": moments.count,
                "mean": moments.mean,
                "m2": moments.m2,
                "units": None if (units := self._units[env]) is None else [units.mean, units.scale],
            }
            for env, moments in self._moments.items()
        }

    def load_row(self, env: str, state: Mapping[str, Any], *, resume: bool) -> None:
        """Restore a row's entry of what `state_dict` gave.

        Args:
            env: The environment.
            state: Its entry, or that of the environment whose row it takes over.
            resume: Go on with the moments too. A new run has targets of its own: only the units are those of the row.
        """
        units = state["units"]
        self._units[env] = None if units is None else Units(float(units[0]), float(units[1]))
        if resume:
            self._moments[env] = Moments(int(state["count"]), float(state["mean"]), float(state["m2"]))


def _scale(moments: Moments, before: Units | None) -> float:
    """The deviation of the targets; where they do not vary, what it was, and at first the size of their mean, or 1.

    With any of these a constant target is predicted by 0, so that there is nothing to learn.
    """
    if moments.std > 1e-9 * abs(moments.mean):
        return moments.std
    return before.scale if before is not None else abs(moments.mean) or 1.0
