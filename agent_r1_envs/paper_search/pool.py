"""The pool of papers that an episode has found: pure functions over an immutable mapping."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from agent_r1_envs.paper_search.papers.data import Paper

LEAST_SCORE: Final = 0.01
"""Papers that are judged less relevant than this are not kept."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A paper of the pool.

    Attributes:
        paper: The paper.
        score: How relevant it is, from 0 to 1.
        expanded: Whether its references and citations were looked up.
    """

    paper: Paper
    score: float
    expanded: bool = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Entry:
        return self


Pool = Mapping[str, Entry]
"""Entries by the key of their paper, in the order in which they were found. Never changed, only replaced."""


def with_papers(pool: Pool, entries: Iterable[Entry]) -> Pool:
    """Return the pool and the papers that it did not hold."""
    new = {entry.paper.id: entry for entry in entries if entry.paper.id not in pool}
    return {**pool, **new} if new else pool


def with_expanded(pool: Pool, keys: Collection[str]) -> Pool:
    """Return the pool with some of its papers marked as expanded."""
    return {**pool, **{key: replace(pool[key], expanded=True) for key in keys}} if keys else pool


def ranked(pool: Pool, *, ties_by_id: bool = False) -> list[Entry]:
    """Return all entries, best first.

    Args:
        pool: The pool.
        ties_by_id: Whether equal scores come by descending id; otherwise in the order in which they were found.
    """
    entries = list(pool.values())
    if ties_by_id:
        entries.sort(key=lambda entry: entry.paper.id, reverse=True)
    return _best_first(entries)


def list_view(pool: Pool, size: int, *, ties_by_id: bool = False) -> list[Entry]:
    """Return what an agent is shown: the best expanded papers and as many of the others, best first.

    Args:
        pool: The pool.
        size: Most papers; each kind fills at most half of the places.
        ties_by_id: See :func:`ranked`; of equal scores the expanded ones then come first.
    """
    half = size // 2
    shown: dict[bool, list[Entry]] = {True: [], False: []}
    for entry in ranked(pool, ties_by_id=ties_by_id):
        if len(shown[entry.expanded]) < (half if entry.expanded else size - half):
            shown[entry.expanded].append(entry)
    return _best_first(shown[True] + shown[False])


def _best_first(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: -entry.score)
