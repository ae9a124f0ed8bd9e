"""Queries over the synthetic literature, with all the papers that answer them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Final, Literal

from agent_r1_envs.paper_search.generator.lexicon import FINDINGS, below, pick, shuffled
from agent_r1_envs.paper_search.generator.literature import Literature, Work
from agent_r1_envs.paper_search.papers.data import PaperQuery

Split = Literal["train", "validation", "test"]
SPLITS: Final[tuple[Split, ...]] = ("train", "validation", "test")

PANEL: Final[dict[Split, int]] = {"train": 400, "validation": 150, "test": 150}
"""How many queries each split embeds."""

MOST_ANSWERS: Final = 12
LEAST_ANSWERS: Final = 3

# The relevance of papers that are near the subject of a query but do not answer it.
NEAR: Final = {"cell": 0.4, "survey": 0.4, "origin": 0.4, "task": 0.25, "method": 0.1}

_BY_METHOD: Final = (
    "Which papers apply {method} to {task}?",
    "I am looking for work on {task} that uses {method}.",
    "Show me studies in which {method} are used for {task}.",
)
_BY_FINDING: Final = (
    "Which studies of {task} report that their approach {finding}?",
    "Find papers on {task} in which the approach {finding}.",
    "Is there work on {task} where the method {finding}?",
)


def split_of(task_object: int) -> Split:
    """Return the split that owns an object: of each field's four objects two are for training."""
    return ("train", "train", "validation", "test")[task_object % 4]


def make_queries(literature: Literature, split: Split, *, seed: int) -> list[PaperQuery]:
    """Make the queries of a split.

    The splits share no object, so that no paper answers queries of two of them. A query has a cut-off date, which
    leaves out some papers that would answer it, and at least one of its answers is a short report.

    Args:
        literature: The papers.
        split: The split.
        seed: Decides wording, cut-offs and order.
    """
    rng = Random(f"agent-r1 paper queries {split} {seed}")
    studies = [w for w in literature.works if w.kind in ("study", "report") and w.task and w.method]
    cells: dict[tuple[str, int, int], list[Work]] = defaultdict(list)
    for work in studies:
        assert work.task and work.method
        if split_of(work.task.object) == split:
            cells["method", work.task.number, work.method.number].append(work)
            cells["finding", work.task.number, work.finding].append(work)
    drafts = [(kind, cell) for (kind, *_), cell in sorted(cells.items(), key=lambda item: item[0])]
    groups = _groups(literature)
    queries: list[PaperQuery] = []
    seen: set[tuple[Work, ...]] = set()
    for kind, cell in shuffled(rng, drafts + drafts):  # twice, with another cut-off
        keep = len(cell) - below(rng, 1 + len(cell) // 3)
        answers = tuple(cell[:keep])
        reports = sum(work.kind == "report" for work in answers)
        suits = reports and LEAST_ANSWERS <= len(answers) - reports and len(answers) <= MOST_ANSWERS
        if suits and answers not in seen:
            seen.add(answers)
            queries.append(
                _query(f"{split}-{len(queries):04d}-{kind}", kind, answers, cell[keep:], groups, rng, literature)
            )
        if len(queries) == PANEL[split]:
            break
    return queries


def _query(
    name: str,
    kind: str,
    answers: Sequence[Work],
    later: Sequence[Work],
    groups: dict[tuple[str, int], tuple[str, ...]],
    rng: Random,
    literature: Literature,
) -> PaperQuery:
    first = answers[0]
    assert first.task and first.method
    task, method = first.task, first.method
    words = {"task": task.wordings[0], "method": method.wordings[0], "finding": FINDINGS[first.finding][0]}
    question = pick(rng, _BY_METHOD if kind == "method" else _BY_FINDING).format(**words)
    # A day on which the last answer is there and the next one is not; two papers of one day are both answers.
    cutoff = answers[-1].date
    included = [*answers, *(work for work in later if work.date == cutoff)]
    grades = [
        (groups["survey", task.number], NEAR["survey"]),
        (groups["data", task.number], NEAR["origin"]),
        (groups["task", task.number], NEAR["task"]),
    ]
    if kind == "method":
        grades.append((groups["origin", method.number], NEAR["origin"]))
        grades.append((groups["method", method.number], NEAR["method"]))
        grades.append((groups["cell", task.number * 1000 + method.number], NEAR["cell"]))
    return PaperQuery(
        id=name,
        question=question,
        answers=tuple(work.key for work in included),
        titles=tuple(literature.records[work.position].paper.title for work in included),
        cutoff=cutoff,
        grades=tuple(grades),
        dataset="synthetic",
    )


def _groups(literature: Literature) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the papers that share a subject, so that queries can share the tuples."""
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    for work in literature.works:
        if work.kind == "survey" and work.task:
            groups["survey", work.task.number].append(work.key)
        elif work.kind == "method" and work.method:
            groups["origin", work.method.number].append(work.key)
        elif work.kind == "dataset" and work.task:
            groups["data", work.task.number].append(work.key)
        elif work.task and work.method:
            groups["task", work.task.number].append(work.key)
            groups["method", work.method.number].append(work.key)
            groups["cell", work.task.number * 1000 + work.method.number].append(work.key)
    return {name: tuple(keys) for name, keys in groups.items()}
