"""Which tasks stand for a panel when not all of them are played."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from agent_r1_trainer.seeds import derive_seed

__all__ = ["choose_tasks", "representative_order"]


def choose_tasks(ids: Sequence[str], count: int, types: Sequence[str] | None = None) -> list[int]:
    """Choose `count` tasks of a panel: the same ones in every run, with the panel's shares of the types of task.

    The head of a panel stands for nothing: official games lie sorted by type.

    Args:
        ids: Of the panel's tasks.
        count: How many; all of them if there are no more.
        types: Type of each task; None draws from all alike.

    Returns:
        Positions in the panel, ascending.
    """
    if count >= len(ids):
        return list(range(len(ids)))
    return sorted(islice(representative_order(ids, types), count))


def representative_order(ids: Sequence[str], types: Sequence[str] | None = None) -> Iterator[int]:
    """An order of a panel whose every beginning stands for the whole.

    Within a type, a task's place follows from its id alone: not from the run's seed, so that runs of different seeds
    are measured on the same tasks, and not from the order of the panel.

    Args:
        ids: Of the panel's tasks.
        types: Type of each task; None treats all alike.

    Yields:
        Positions in the panel.
    """
    strata: dict[str, list[int]] = {}
    for position in sorted(range(len(ids)), key=lambda place: (derive_seed("task choice", ids[place]), place)):
        strata.setdefault("" if types is None else types[position], []).append(position)
    drawn = {name: iter(positions) for name, positions in strata.items()}
    for name in _turns({name: len(positions) for name, positions in strata.items()}):
        yield next(drawn[name])


def _turns(sizes: Mapping[str, int]) -> Iterator[str]:
    """Whose turn it is: every type once, the largest first, then in proportion, by Sainte-Lague's divisors.

    Rounded shares could shrink when there is more to divide; here every beginning is part of the next.
    """
    queue = [(0.0, -size, name) for name, size in sizes.items()]
    heapq.heapify(queue)
    taken = dict.fromkeys(sizes, 0)
    while queue:
        _, order, name = heapq.heappop(queue)
        yield name
        taken[name] += 1
        if taken[name] < sizes[name]:
            heapq.heappush(queue, ((2 * taken[name] + 1) / sizes[name], order, name))
