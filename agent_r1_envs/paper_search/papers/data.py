"""The data model: papers, and queries with the papers that answer them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Dataset = Literal["synthetic", "autoscholar", "deepscholar", "litsearch", "spar", "agent-r1"]


@dataclass(frozen=True, slots=True)
class Paper:
    """One paper as a search service knows it.

    Attributes:
        id: Its one name: arXiv id without version, or the service's own id.
        title: Its title.
        abstract: Its abstract; empty where the service has none.
        date: When it appeared: ``YYYYMMDD``, ``YYYYMM``, ``YYYY`` or ``""``.
    """

    id: str
    title: str
    abstract: str = ""
    date: str = ""

    def __deepcopy__(self, memo: dict[int, Any]) -> Paper:
        return self  # nothing changes it, so saved states share it


@dataclass(frozen=True, slots=True)
class PaperQuery:
    """One task.

    Attributes:
        id: Unique in its file.
        question: What is looked for.
        answers: Names of the right papers, distinct; empty where a data set has none.
        titles: Their titles, in the same order; empty where the data set has none.
        cutoff: The last day, ``YYYYMMDD``, on which a paper may have appeared; ``""`` for no such day.
        grades: Groups of papers that are near the query, with the relevance of each group; answers are worth 1.
        dataset: Where the task comes from.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    titles: tuple[str, ...] = ()
    cutoff: str = ""
    grades: tuple[tuple[tuple[str, ...], float], ...] = ()
    dataset: Dataset = "autoscholar"


@dataclass(frozen=True, slots=True)
class PaperRecord:
    """A paper of a local corpus with what it cites.

    Attributes:
        paper: The paper.
        references: Names of the papers that it cites; those that the corpus lacks are left out of the graph.
    """

    paper: Paper
    references: tuple[str, ...] = ()
