"""What judges how relevant a paper is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery


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
