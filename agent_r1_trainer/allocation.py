"""Which environment of a mixture each task of a run belongs to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

__all__ = ["allocate"]


def allocate(weights: Mapping[str, float], first: int, count: int) -> list[tuple[str, int]]:
    """The environments of the tasks number `first` to `first + count` of a run, a pure function of these numbers.

    Every environment gets its share of the tasks and is never far from it: what is left over is carried on. Task `k` of
    an environment of share `s` is due at `(k + 1/2) / s`, and tasks are taken in the order in which they are due
    (Webster's method). With whole weights of sum `W` the shares are exact after every `W` tasks, and the environments
    alternate as evenly as they can, so that a process which takes a part of a rollout gets all of them.

    Args:
        weights: Positive weight of each environment, relative to the others.
        first: Tasks of the run before these.
        count: How many.

    Returns:
        Name of the environment and number of its own tasks before, for each task.

    Raises:
        ValueError: No weight is positive.

    Example:
        >>> allocate({"a": 2, "b": 1}, 0, 6)
        [('a', 0), ('b', 0), ('a', 1), ('a', 2), ('b', 1), ('a', 3)]
    """
    total = sum(Fraction(weight) for weight in weights.values())
    shares = {name: Fraction(weight) / total for name, weight in weights.items() if weight > 0} if total > 0 else {}
    if not shares:
        raise ValueError(f"at least one environment needs a positive weight, got {dict(weights)}")
    # Everything that is due this early is surely among the first tasks; from here on they are counted one by one.
    early = max(Fraction(0), first - Fraction(len(shares), 2))
    taken = {name: math.floor(share * early + Fraction(1, 2)) for name, share in shares.items()}
    due = {name: (taken[name] + Fraction(1, 2)) / share for name, share in shares.items()}
    found = []
    for number in range(sum(taken.values()), first + count):
        name = min(due, key=due.__getitem__)
        if number >= first:
            found.append((name, taken[name]))
        taken[name] += 1
        due[name] += 1 / shares[name]
    return found
