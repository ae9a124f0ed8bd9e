"""The embedded literature: pinned, consistent, and not to be found by searching alone."""

import random
import re

import pytest

from agent_r1_envs.paper_search.backends import Limits
from agent_r1_envs.paper_search.embedded import embedded_backend, embedded_literature, load_panel
from agent_r1_envs.paper_search.generator import PANEL, SPLITS, build_literature
from agent_r1_envs.paper_search.generator.literature import FIRST_REPORTS
from agent_r1_envs.paper_search.papers.data import PaperQuery
from agent_r1_envs.retrieval import words

HASHES = {
    "train": "18c4f0dee4db4f2688ca648c06382ab5ed51f422c8035b4ade14b5e19e941058",
    "validation": "f444e7046913f7a90d158821fedd95a616d19f6c3ff0f7bc936e69a98d1d2539",
    "test": "0776b586674206e4671e9fe46b265433a40e3d5e6df00b268b102128fc3394a6",
}


@pytest.mark.parametrize("split", SPLITS)
def test_the_panel_is_pinned(split: str) -> None:
    panel = load_panel(split)
    assert len(panel) == PANEL[split]
    assert panel.content_hash == HASHES[split], "raise the version of the id when the panel changes"


def test_papers_cite_earlier_papers_only() -> None:
    records = embedded_literature().records
    assert len(records) > 5_000
    assert [r.paper.date for r in records] == sorted(r.paper.date for r in records)
    place = {record.paper.id: number for number, record in enumerate(records)}
    for record in records:
        assert all(place[reference] < place[record.paper.id] for reference in record.references)
        assert len(set(record.references)) == len(record.references)


def test_other_seeds_give_other_literature() -> None:
    assert build_literature(1).records[500] != embedded_literature().records[500]


def test_splits_share_no_answer_and_no_subject() -> None:
    panels = {split: load_panel(split) for split in SPLITS}
    answers = [{answer for task in panels[split] for answer in task.answers} for split in SPLITS]
    assert not (answers[0] & answers[1] or answers[0] & answers[2] or answers[1] & answers[2])
    objects = [
        set(re.findall(r"\w+ \w+(?= (?:forecasting|classification|mapping|anomaly))", _all(p))) for p in panels.values()
    ]
    assert all(objects) and not (objects[0] & objects[1] or objects[0] & objects[2] or objects[1] & objects[2])


def _all(panel: object) -> str:
    return " ".join(task.question for task in panel)  # type: ignore[attr-defined]


def test_answers_are_complete() -> None:
    """Every paper on the subject up to the cut-off is an answer, by what the papers are about."""
    literature = embedded_literature()
    for split in SPLITS:
        for task in load_panel(split):
            works = [literature.works[int(answer[1:])] for answer in task.answers]
            first = works[0]
            by_method = task.id.endswith("method")
            same = [
                w.key
                for w in literature.works
                if w.kind in ("study", "report")
                and w.task is first.task
                and (w.method is first.method if by_method else w.finding == first.finding)
                and w.date <= task.cutoff
            ]
            assert list(task.answers) == same
            assert 4 <= len(same) <= 14 and len(task.titles) == len(same)


def reports(task: PaperQuery) -> list[str]:
    works = embedded_literature().works
    return [answer for answer in task.answers if works[int(answer[1:])].kind == "report"]


def test_search_alone_cannot_reach_full_recall() -> None:
    """A short report holds the same words as ten earlier ones that answer nothing, so no query can rank it higher."""
    literature = embedded_literature()
    bags = {r.paper.id: sorted(words(f"{r.paper.title} {r.paper.abstract}")) for r in literature.records}
    firsts = literature.records[:FIRST_REPORTS]
    assert len(firsts) > Limits().search
    wanted = {answer for split in SPLITS for task in load_panel(split) for answer in task.answers}
    cutoffs = {task.cutoff for split in SPLITS for task in load_panel(split)}
    for record in firsts:
        assert record.paper.id not in wanted and all(record.paper.date <= cutoff for cutoff in cutoffs)
    for split in SPLITS:
        for task in load_panel(split):
            assert reports(task), "every query has an answer that searching cannot reach"
            assert all(bags[report] == bags[firsts[0].paper.id] for report in reports(task))


def test_no_query_finds_a_short_report_that_is_an_answer() -> None:
    corpus = embedded_backend().corpus
    rng = random.Random(0)
    vocabulary = sorted({word for r in embedded_literature().records[::50] for word in words(r.paper.abstract)})
    for task in list(load_panel("test"))[::5]:
        hidden = set(reports(task))
        texts = [corpus.paper(int(key[1:])) for key in hidden]
        queries = [task.question, *(p.title for p in texts), *(p.abstract for p in texts), *(p.id for p in texts)]
        queries += [" ".join(rng.choices(vocabulary, k=rng.randrange(1, 8))) for _ in range(10)]
        for query in queries:
            assert not hidden & {p.id for p in corpus.search(query, Limits().search, task.cutoff)}
        assert not set(texts) & set(corpus.search(" ".join(bag for bag in words(texts[0].abstract)), 10))
