"""The value after the last step of a trajectory.

A benchmark's turn limit is the end of a finite horizon: its value is 0. Bootstrapping there lets stalling justify
itself (with ``gamma = 1`` a policy that never answers keeps the value it already believes in).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from agent_r1_trainer.credit.batch import Floats
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory

__all__ = ["Bootstrap", "bootstraps", "final_values", "value_queries"]

Bootstrap = Literal["auto", "none", "value"]
_BOOTSTRAPPED = {
    "auto": frozenset({StopReason.FOREIGN_LIMIT}),
    "none": frozenset[StopReason](),
    "value": frozenset({StopReason.FOREIGN_LIMIT, StopReason.TURN_LIMIT}),
}


def bootstraps(trajectory: Trajectory, mode: Bootstrap = "auto") -> bool:
    """Say whether the trajectory's final value is the critic's, rather than 0.

    Args:
        trajectory: A finished episode.
        mode: ``"auto"``: only where a limit foreign to the task stopped it. ``"none"``: never. ``"value"``: at the
            benchmark's own turn limit too.

    Returns:
        False also where the task terminated (a win on the last turn), where the next prompt did not fit, and where the
        trajectory is masked.

    Raises:
        ValueError: Unknown mode.
    """
    if mode not in _BOOTSTRAPPED:
        raise ValueError(f"bootstrap must be one of {', '.join(_BOOTSTRAPPED)}, got {mode!r}")
    if trajectory.masked or not trajectory.final_prompt_ids:
        return False
    if trajectory.steps and trajectory.steps[-1].terminated:
        return False
    return trajectory.stop in _BOOTSTRAPPED[mode]


def value_queries(trajectories: Sequence[Trajectory], mode: Bootstrap = "auto") -> tuple[list[int], list[Trajectory]]:
    """Make the prompts whose values a bootstrap needs into trajectories of one step without a response.

    They go through the same packing as any other (`merge_units`, `collate`), which reads a value at the last prompt
    token of every step, and have no policy term.

    Returns:
        The positions, in ``trajectories``, of those that are bootstrapped, and one query for each of them, in order.
    """
    which = [i for i, trajectory in enumerate(trajectories) if bootstraps(trajectory, mode)]
    queries = [
        Trajectory(
            task_id=trajectories[i].task_id,
            steps=[Step(prompt_ids=trajectories[i].final_prompt_ids or [], response_ids=[])],
            stop=trajectories[i].stop,
            group=trajectories[i].group,
            sample=trajectories[i].sample,
            env=trajectories[i].env,
        )
        for i in which
    ]
    return which, queries


def final_values(count: int, which: Sequence[int], values: Sequence[float] | Floats) -> Floats:
    """Spread the values of the queries over all trajectories.

    Args:
        count: Number of trajectories, K.
        which: Positions of the bootstrapped ones, from `value_queries`.
        values: Their values, in the same order.

    Returns:
        [K] float64, 0 where the end is terminal: ``CreditBatch.final_values``.
    """
    result = np.zeros(count, dtype=np.float64)
    result[np.asarray(which, dtype=np.int64)] = np.asarray(values, dtype=np.float64)
    return result
