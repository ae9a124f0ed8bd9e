"""Builds the literature: who wrote what when, and whom they cite.

Papers are in the order of their dates, and cite only earlier ones: the origins of their method and data set, others on
the same subject, and a few from near by. A share of them are short reports, whose titles and abstracts say nothing of
their subject. All short reports hold the same words, so any query whatever gives them equal scores, and the earliest
ones come first: a later one cannot be found by searching, only through the papers that cite it or that it cites.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

from agent_r1_envs.paper_search.generator import writing
from agent_r1_envs.paper_search.generator.lexicon import ANGLES, FINDINGS, below, pick, sample
from agent_r1_envs.paper_search.generator.subjects import Dataset, Method, Task, all_datasets, all_methods, all_tasks
from agent_r1_envs.paper_search.papers.data import Paper, PaperRecord

Kind = Literal["method", "dataset", "survey", "study", "report"]

METHODS_A_TASK: Final = 6
STUDIES_A_TASK: Final = 48
FIRST_REPORTS: Final = 12
"""Reports about nothing that anybody asks for; they are the earliest ones, and so take the places of all others."""

_REPORT_SHARE: Final = 0.22
_TEXTS_FIRST: Final = 3  # so many papers of a method and a task, at least, come before the first report
_YEARS: Final = {
    "report": (1998, 1),
    "method": (2000, 3),
    "dataset": (2001, 4),
    "study": (2005, 18),
    "survey": (2012, 11),
}


@dataclass(slots=True, eq=False)
class Work:
    """A paper while it is being made.

    Attributes:
        kind: What sort of paper it is.
        date: ``YYYYMMDD``.
        task: Its task, or None.
        method: Its method, or None.
        dataset: Its data set, or None.
        finding: Number of what it reports, -1 for nothing.
        position: Its place in the order of dates.
        cites: The papers that it cites.
    """

    kind: Kind
    date: str
    task: Task | None = None
    method: Method | None = None
    dataset: Dataset | None = None
    finding: int = -1
    position: int = -1
    cites: list[Work] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Its id."""
        return f"P{self.position:05d}"


@dataclass(frozen=True, slots=True)
class Literature:
    """All papers in the order of their dates.

    Attributes:
        works: What each paper is about.
        records: The papers as a corpus takes them, in the same order.
    """

    works: tuple[Work, ...]
    records: tuple[PaperRecord, ...]


def build_literature(seed: int) -> Literature:
    """Make the literature of a seed; the result is the same on every machine."""
    rng = Random(f"agent-r1 papers {seed}")
    tasks, methods = all_tasks(), all_methods()
    datasets = all_datasets(tasks)
    works = [Work("report", _date(rng, "report")) for _ in range(FIRST_REPORTS)]
    works += [Work("method", _date(rng, "method"), method=method) for method in methods]
    works += [Work("dataset", _date(rng, "dataset"), task=tasks[d.task], dataset=d) for d in datasets]
    works += [Work("survey", _date(rng, "survey"), task=task) for task in tasks for _ in range(2)]
    for task in tasks:
        chosen = sample(rng, methods, METHODS_A_TASK)
        works += [
            Work(
                "study",
                _date(rng, "study"),
                task=task,
                method=chosen[number % METHODS_A_TASK],
                dataset=datasets[2 * task.number + below(rng, 2)],
                finding=below(rng, len(FINDINGS)),
            )
            for number in range(STUDIES_A_TASK)
        ]
    works.sort(key=lambda work: work.date)  # stable, so that equal dates keep the order above
    for position, work in enumerate(works):
        work.position = position
    _make_reports(works, rng)
    _cite(works, rng)
    return Literature(tuple(works), tuple(_write(work, rng) for work in works))


def _date(rng: Random, kind: Kind) -> str:
    first, years = _YEARS[kind]
    return f"{first + below(rng, years)}{1 + below(rng, 12):02d}{1 + below(rng, 28):02d}"


def _make_reports(works: list[Work], rng: Random) -> None:
    """Turn a share of the studies into short reports, never the first few of a cell."""
    earlier: dict[tuple[int, int], int] = defaultdict(int)
    for work in works:
        if work.kind == "study" and work.task and work.method:
            cell = (work.task.number, work.method.number)
            if earlier[cell] >= _TEXTS_FIRST and rng.random() < _REPORT_SHARE:
                work.kind = "report"
            earlier[cell] += 1


def _cite(works: list[Work], rng: Random) -> None:
    """Give every paper its references, all of them earlier ones."""
    origins: dict[tuple[str, int], Work] = {}
    by_cell: dict[tuple[int, int], list[Work]] = defaultdict(list)
    by_task: dict[int, list[Work]] = defaultdict(list)
    by_method: dict[int, list[Work]] = defaultdict(list)
    for work in works:
        task, method = work.task, work.method
        if work.kind == "method" and method:
            origins["method", method.number] = work
        elif work.kind == "dataset" and work.dataset:
            origins["dataset", work.dataset.number] = work
        elif work.kind == "survey" and task:
            work.cites = sample(rng, by_task[task.number], 25)
        elif task and method and work.dataset:
            cell = by_cell[task.number, method.number]
            near = [w for w in cell if w.kind == "study"] if work.kind == "report" else cell
            chosen = [origins["method", method.number], origins["dataset", work.dataset.number]]
            chosen += sample(rng, near[-8:], 2 + below(rng, 3))
            chosen += sample(rng, by_task[task.number], 1 + below(rng, 3))
            chosen += sample(rng, by_method[method.number], 1)
            work.cites = list(dict.fromkeys(chosen))
            cell.append(work)
            by_task[task.number].append(work)
            by_method[method.number].append(work)


def _write(work: Work, rng: Random) -> PaperRecord:
    if work.kind == "report":
        title, abstract = writing.short_report(rng)
    elif work.kind == "method" and work.method:
        title, abstract = writing.method_origin(work.method)
    elif work.kind == "dataset" and work.dataset and work.task:
        title, abstract = writing.dataset_origin(work.dataset, work.task)
    elif work.kind == "survey" and work.task:
        title, abstract = writing.survey(rng, work.task)
    else:
        assert work.task and work.method and work.dataset
        angle = pick(rng, ANGLES)
        title, abstract = writing.study(rng, work.task, work.method, work.dataset, work.finding, angle)
    paper = Paper(work.key, title, abstract, work.date)
    return PaperRecord(paper, tuple(cited.key for cited in work.cites))
