"""Precision, recall and F1 of the papers that were found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

CUTS: Final = (20, 25, 50, 100)
"""Where lists are cut in published tables: 25, 50, 100, and PaSa's 20, 50, 100."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How well a list of papers fits the right ones, each figure from 0 to 1."""

    precision: float
    recall: float
    f1: float


def overlap(found: Collection[str], answers: Collection[str]) -> Overlap:
    """Compare two collections of paper keys; a figure whose denominator is zero is 0.

    >>> overlap(["a", "b", "c", "d"], ["a", "b"])
    Overlap(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    hits = len(set(found) & set(answers))
    precision = hits / len(set(found)) if found else 0.0
    recall = hits / len(set(answers)) if answers else 0.0
    return Overlap(precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0)


def pool_figures(ranked: Sequence[str], answers: Collection[str]) -> dict[str, float]:
    """Return ``precision``, ``recall`` and ``f1`` of a ranking, and precision and recall of its first k papers.

    Args:
        ranked: Distinct paper keys, best first.
        answers: Keys of the right papers.

    Returns:
        The three figures, and ``precision@k`` and ``recall@k`` for each k of :data:`CUTS`. A ranking of fewer than k
        papers counts as it is: its precision is over the papers that there are.
    """
    whole = overlap(ranked, answers)
    figures = {"precision": whole.precision, "recall": whole.recall, "f1": whole.f1}
    for k in CUTS:
        part = whole if len(ranked) <= k else overlap(ranked[:k], answers)
        figures[f"precision@{k}"], figures[f"recall@{k}"] = part.precision, part.recall
    return figures
