"""Remembers scores, so that a paper is judged once a query."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery

Key = tuple[str, str, str]


class ScoreCache:
    """Scores by question, paper and title; the one that was used longest ago is forgotten first.

    Args:
        size: Most scores; 0 for none.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._scores: OrderedDict[Key, float] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_size": self._size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_size"])  # type: ignore[misc]

    def fill(
        self,
        query: PaperQuery,
        papers: Sequence[Paper],
        judge: Callable[[Sequence[Paper]], Sequence[float | None]],
    ) -> list[float | None]:
        """Return the scores of papers, asking ``judge`` for those that are not known; failures are not kept."""
        keys = [(query.question, paper.id, paper.title) for paper in papers]
        known: dict[Key, float | None] = {}
        with self._lock:
            for key in keys:
                if key in self._scores:
                    self._scores.move_to_end(key)
                    known[key] = self._scores[key]
        unknown = {key: paper for key, paper in zip(keys, papers, strict=True) if key not in known}
        if unknown:
            known.update(zip(unknown, judge(list(unknown.values())), strict=True))
            self._keep({key: score for key in unknown if (score := known[key]) is not None})
        return [known[key] for key in keys]

    def clear(self) -> None:
        """Forget all scores."""
        with self._lock:
            self._scores.clear()

    def _keep(self, scores: dict[Key, float]) -> None:
        with self._lock:
            self._scores.update(scores)
            while len(self._scores) > self._size:
                self._scores.popitem(last=False)
