"""A literature of a handful of papers, and parts of paper search that fail on purpose."""

from collections.abc import Callable, Sequence
from typing import Any

from agent_r1_envs.paper_search import Corpus, CorpusBackend, Paper, PaperQuery, PaperRecord
from agent_r1_envs.paper_search.backends import Found, Limits, Lookup
from agent_r1_envs.paper_search.env import PaperSearchEnv

RECORDS = [
    PaperRecord(Paper("2001.00001", "Sieves", "We sort sand with sieves.", "20200101")),
    PaperRecord(Paper("2002.00002", "Finer sieves", "Sand again, finer.", "20200201"), ("2001.00001",)),
    PaperRecord(Paper("2003.00003", "Washing gravel", "Water moves gravel.", "20200301"), ("2001.00001", "none")),
    PaperRecord(Paper("2004.00004", "A survey of sand", "", "20200401"), ("2001.00001", "2002.00002", "2003.00003")),
    PaperRecord(Paper("P5", "Magnets", "Iron is pulled out.", "2020"), ("2004.00004",)),
    PaperRecord(Paper("2106.00006", "Later sieves", "Sand and sieves once more.", "20210601"), ("2001.00001",)),
]


def small_backend() -> CorpusBackend:
    """Search the small literature."""
    return CorpusBackend(Corpus.of(RECORDS))


class Grades:
    """Scores papers by a table; None stands for a selector that fails."""

    def __init__(self, scores: dict[str, float | None], otherwise: float | None = 0.0) -> None:
        self.scores, self.otherwise = scores, otherwise
        self.batches: list[list[str]] = []

    def judge(self, query: PaperQuery, papers: Sequence[Paper]) -> list[float | None]:
        self.batches.append([paper.id for paper in papers])
        return [self.scores.get(paper.id, self.otherwise) for paper in papers]

    def describe(self) -> dict[str, Any]:
        return {"name": "grades"}


class Flaky:
    """A search service that fails the calls for which ``fails`` is true of their number."""

    def __init__(self, inner: CorpusBackend, fails: Callable[[int], bool]) -> None:
        self.inner, self.fails = inner, fails
        self.calls = 0

    def look_up(self, lookups: Sequence[Lookup], limits: Limits, cutoff: str = "") -> list[Found]:
        answers = []
        for found in self.inner.look_up(lookups, limits, cutoff):
            answers.append(Found(error="the service is asleep") if self.fails(self.calls) else found)
            self.calls += 1
        return answers

    def describe(self) -> dict[str, Any]:
        return {"name": "flaky"}


def small_env(scores: dict[str, float | None] | None = None, **kwargs: Any) -> PaperSearchEnv:
    """Make an env over the small literature; tasks are the embedded ones, which do not matter here."""
    relevance = Grades(scores or {}, otherwise=0.5)
    env = PaperSearchEnv("test", **{"backend": small_backend(), "relevance": relevance, "use_cutoff": False, **kwargs})
    env.reset(options={"task": 0})
    return env
