"""What judges how relevant a paper is, and the judge that needs no model: the known answers of a query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, runtime_checkable

from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery
from agent_r1_envs.retrieval import words


@runtime_checkable
class Selector(Protocol):
    """Scores papers. One object serves all envs of a process, from any thread."""

    def judge(self, query: PaperQuery, papers: Sequence[Paper]) -> list[float | None]:
        """Return the relevance of each paper, from 0 to 1; None where it could not be judged.

        It raises nothing for a service that fails: that costs a call its reward, never the episode.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Return what makes results comparable, as JSON data."""
        ...


_SHORTEST_WORD: Final = 4  # shorter ones say little of a subject


class KnownAnswers:
    """Scores the answers of a query 1, and other papers by how near they are.

    Where the task has grades, they are the score of the papers they name, and any other paper is worth nothing. Where
    it has none, a paper is worth the share of the query's longer words that its title and abstract hold, times
    ``nearness``, so that the pool has more in it than answers.

    Args:
        nearness: The most that a paper is worth which is no answer and has no grade, 0 to 1.

    Raises:
        ValueError: If ``nearness`` is out of range.
    """

    def __init__(self, nearness: float = 0.4) -> None:
        if not 0 <= nearness <= 1:
            raise ValueError(f"nearness must be from 0 to 1, got {nearness!r}")
        self.nearness = nearness

    def judge(self, query: PaperQuery, papers: Sequence[Paper]) -> list[float | None]:
        """Return the relevance of each paper; never None."""
        grades = _grades(query.answers, query.grades)
        if query.grades:
            return [grades.get(paper.id, 0.0) for paper in papers]
        wanted = _subject(query.question)
        return [grades.get(p.id, self.nearness * _share(wanted, f"{p.title} {p.abstract}")) for p in papers]

    def describe(self) -> dict[str, Any]:
        """Return name and settings."""
        return {"name": "known", "nearness": self.nearness}


@lru_cache(maxsize=8)
def _grades(answers: tuple[str, ...], groups: tuple[tuple[tuple[str, ...], float], ...]) -> dict[str, float]:
    grades: dict[str, float] = {}
    for keys, grade in groups:
        for key in keys:
            grades[key] = max(grade, grades.get(key, 0.0))
    return {**grades, **dict.fromkeys(answers, 1.0)}


def _subject(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if len(word) >= _SHORTEST_WORD)


def _share(wanted: frozenset[str], text: str) -> float:
    return len(wanted & _subject(text)) / len(wanted) if wanted else 0.0
