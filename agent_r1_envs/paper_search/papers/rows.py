"""From a row of each data set's own format to a query, or to a paper of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

from agent_r1_envs.files import Row
from agent_r1_envs.files.verl import verl_extra, verl_id, verl_question
from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery, PaperRecord
from agent_r1_envs.paper_search.papers.identity import arxiv_month, date_digits, paper_key

Format = Literal["autoscholar", "deepscholar", "litsearch", "spar", "agent-r1"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

_IDS: Final = ("id", "arxiv_id", "corpusid", "paperId", "paperID")
_DATES: Final = ("published", "publicationDate", "date", "year")
_REFERENCES: Final = ("references", "citations")


def detect(row: Row) -> Format:
    """Tell the format of a file of queries by the fields of a row.

    Raises:
        DataError: If it fits none; the message says which fields were found.
    """
    has = row.values
    if "reward_model" in has:
        return "agent-r1"
    if "answer_arxiv_id" in has:
        return "autoscholar"
    if "query" in has and "corpusids" in has:
        return "litsearch"
    if "references" in has and "title" in has:
        return "deepscholar"
    if "question" in has and isinstance(has.get("source_meta"), Mapping) and "answers" in has["source_meta"]:
        return "spar"
    row.complain("question", f"expected a row of {', '.join(FORMATS)}, found the fields {sorted(map(str, has))[:12]}")


def autoscholar(row: Row) -> PaperQuery:
    """Read a row of AutoScholarQuery or RealScholarQuery."""
    keys = [paper_key(name) for name in row.strings("answer_arxiv_id")]
    titles = row.strings("answer")
    if len(titles) != len(keys):
        row.complain("answer", f"expected one title for each of {len(keys)} ids, found {len(titles)}")
    answers = dict(zip(reversed(keys), reversed(titles), strict=True))
    distinct = list(dict.fromkeys(keys))
    if not distinct:
        row.fail("answer_arxiv_id", "at least one id", keys)
    return PaperQuery(
        id=row.identity("qid"),
        question=row.text("question"),
        answers=tuple(distinct),
        titles=tuple(answers[key] for key in distinct),
        cutoff=_cutoff(row),
    )


def deepscholar(row: Row) -> PaperQuery | None:
    """Make a query of a paper: which papers does it cite? None for a paper that cites none with a known id.

    Only references with an id can be answers; :func:`answers_within` drops those that a corpus lacks.
    """
    record = paper_record(row)
    if not record.references:
        return None
    named = [row.nested(f"references[{i}]", item) for i, item in enumerate(row.items("references", "objects"))]
    titles = {
        paper_key(item.text("arxiv_id")): item.optional_text("title") for item in named if item.values["arxiv_id"]
    }
    return PaperQuery(
        id=record.paper.id,
        question=f'Which papers does the related work of "{" ".join(record.paper.title.split())}" cite?',
        answers=record.references,
        titles=tuple(titles[key] for key in record.references),
        cutoff=record.paper.date if len(record.paper.date) == 8 else "",
        dataset="deepscholar",
    )


def litsearch(row: Row) -> PaperQuery:
    """Read a query of LitSearch; it has no id of its own, so it is named by its place in the file."""
    answers = tuple(dict.fromkeys(_identity(row, "corpusids", item) for item in row.items("corpusids", "corpus ids")))
    if not answers:
        row.fail("corpusids", "at least one id", [])
    return PaperQuery(f"litsearch-{row.number:04d}", row.text("query"), answers, dataset="litsearch")


def spar(row: Row) -> PaperQuery:
    """Read a query of SPAR's benchmark, whose answers are whole papers."""
    records = spar_answers(row)
    return PaperQuery(
        id=f"spar-{row.number:04d}",
        question=row.text("question"),
        answers=tuple(record.paper.id for record in records),
        titles=tuple(record.paper.title for record in records),
        cutoff=_cutoff(row),
        dataset="spar",
    )


def spar_answers(row: Row) -> list[PaperRecord]:
    """Return the distinct papers that answer a query of SPAR's benchmark; one without an id is named by its title."""
    meta = row.nested("source_meta", row.get("source_meta", "an object"))
    records: dict[str, PaperRecord] = {}
    for position, item in enumerate(meta.items("answers", "papers")):
        inner = meta.nested(f"answers[{position}]", item)
        title = inner.text("title")
        key = paper_key(inner.optional_text("paperID")) or f"title:{' '.join(title.casefold().split())}"
        date = date_digits(inner.values.get("year"))
        records.setdefault(key, PaperRecord(Paper(key, title, inner.optional_text("abstract"), date)))
    if not records:
        meta.fail("answers", "at least one paper", [])
    return list(records.values())


def agent_r1(row: Row) -> PaperQuery:
    """Read a row of a table for verl, such as Agent-R1's, which has a prompt and no answers."""
    extra = verl_extra(row)
    index = extra.identity("index") if extra.values.get("index") is not None else ""
    name = f"agent-r1-{int(index):06d}" if index.isdecimal() else verl_id(row)
    return PaperQuery(name, verl_question(row), (), dataset="agent-r1")


READERS: Final[dict[Format, Callable[[Row], PaperQuery | None]]] = {
    "autoscholar": autoscholar,
    "deepscholar": deepscholar,
    "litsearch": litsearch,
    "spar": spar,
    "agent-r1": agent_r1,
}


def paper_record(row: Row) -> PaperRecord:
    """Read a paper of a corpus: an id, a title, and where they are known abstract, date and references.

    Ids are ``id``, ``arxiv_id``, ``corpusid`` or ``paperId``; dates ``published``, ``publicationDate``, ``date`` or
    ``year``; references a list ``references``, or LitSearch's ``citations``, of ids or of objects with one.
    """
    name = next((name for name in _IDS if row.values.get(name) is not None), None)
    if name is None:
        row.complain("id", f"expected one of {', '.join(_IDS)}, found {sorted(map(str, row.values))[:12]}")
    key = _identity(row, name, row.values[name])
    date = next(filter(None, (date_digits(row.values.get(name)) for name in _DATES)), "") or arxiv_month(key)
    references: dict[str, None] = {}
    listed = next((name for name in _REFERENCES if row.values.get(name) is not None), None)
    if listed is not None:
        for position, item in enumerate(row.items(listed, "papers")):
            value = (
                next((item.get(n) for n in _IDS if item.get(n) is not None), None) if isinstance(item, dict) else item
            )
            if value is not None:
                references[_identity(row, f"{listed}[{position}]", value)] = None
    paper = Paper(key, row.text("title", blank=True), row.optional_text("abstract"), date)
    return PaperRecord(paper, tuple(references))


def _identity(row: Row, field: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        row.fail(field, "the id of a paper", value)
    return paper_key(str(value))


def _cutoff(row: Row) -> str:
    meta = row.values.get("source_meta")
    published = meta.get("published_time") if isinstance(meta, Mapping) else None
    if published in (None, ""):
        return ""
    digits = date_digits(published)
    if not digits:
        row.fail("source_meta.published_time", "a date YYYYMMDD", published)
    return digits
