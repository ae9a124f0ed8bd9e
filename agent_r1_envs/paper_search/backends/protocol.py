"""What a search service has to offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from agent_r1_envs.paper_search.papers.data import Paper


@dataclass(frozen=True, slots=True)
class Search:
    """Look for papers by words."""

    query: str


@dataclass(frozen=True, slots=True)
class Expand:
    """Look up the papers that a paper cites and that cite it."""

    paper_id: str


Lookup = Search | Expand


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a look-up returns.

    Attributes:
        search: Most papers of a search.
        citations: Most citing papers of an expansion.
        references: Most cited papers of an expansion.
    """

    search: int = 10
    citations: int = 30
    references: int = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a look-up.

    Attributes:
        papers: Distinct papers, best first; an expansion has the citing papers before the cited ones.
        error: Why the service failed; ``""`` if it did not. A failure is an answer, so that it ends nothing.
    """

    papers: tuple[Paper, ...] = ()
    error: str = ""


@runtime_checkable
class Backend(Protocol):
    """A search service. One object serves all envs of a process, from any thread."""

    def look_up(self, lookups: Sequence[Lookup], limits: Limits, cutoff: str = "") -> list[Found]:
        """Answer the parallel calls of a turn.

        Args:
            lookups: The calls.
            limits: How much each returns.
            cutoff: No paper that appeared later than this day (``YYYYMMDD``) is returned; ``""`` for any paper.

        Returns:
            One answer a call, in order.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Return what makes results comparable, as JSON data."""
        ...
