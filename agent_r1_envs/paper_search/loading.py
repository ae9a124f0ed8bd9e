"""Loads queries and corpora from local files in their official formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_r1_envs.errors import DataError
from agent_r1_envs.files import files_of_split, read_rows, resolve, sha256_of_all
from agent_r1_envs.paper_search.backends.corpus import Corpus
from agent_r1_envs.paper_search.papers.data import PaperQuery, PaperRecord
from agent_r1_envs.paper_search.papers.identity import last_allowed
from agent_r1_envs.paper_search.papers.rows import FORMATS, READERS, detect, paper_record, spar_answers
from agent_r1_envs.tasks import TaskSet
from agent_r1_envs.text import is_unicode

_PATTERNS: Final[dict[str, tuple[str, ...]]] = {
    "train": ("AutoScholarQuery_train.jsonl", "train.jsonl", "train.parquet", "train-*.parquet"),
    "validation": ("AutoScholarQuery_dev.jsonl", "dev.jsonl", "validation.jsonl", "validation.parquet"),
    "test": ("AutoScholarQuery_test.jsonl", "RealScholarQuery.jsonl", "test.jsonl", "test.parquet", "test-*.parquet"),
}


def load_queries(path: str | Path, *, split: str = "test", data_format: str = "auto") -> TaskSet[PaperQuery]:
    """Load the queries of a file, or of a split's file in a folder.

    Args:
        path: A file in one of the formats of :mod:`agent_r1_envs.paper_search.papers.rows`, or a folder with files
            under their official names. A relative path that is not found from here is looked up in ``AGENT_R1_DATA``.
        split: Which file of a folder; for a single file only the name that the tasks carry.
        data_format: ``"auto"``, or one of ``rows.FORMATS``.

    Returns:
        The queries in the order of the file. Those made of a DeepScholar corpus ask for references within it.

    Raises:
        DataError: A missing or damaged file; the message names file, row and field, what was expected and found.
        ValueError: An unknown format or split.
        ImportError: The file is parquet and pyarrow is missing.
    """
    if data_format != "auto" and data_format not in FORMATS:
        raise ValueError(f"data_format must be auto or one of {', '.join(FORMATS)}; got {data_format!r}")
    files = files_of_split(resolve(path), split, _PATTERNS)
    queries: list[PaperQuery] = []
    places: dict[str, str] = {}
    inside: dict[str, str] = {}
    for file in files:
        read = None
        for row in read_rows(file):
            # All the rows of a file are of one kind, so the first decides.
            chosen = detect(row) if read is None and data_format == "auto" else data_format
            read = read or READERS[chosen]  # type: ignore[index]
            query = read(row)
            if read is READERS["deepscholar"]:
                own = paper_record(row).paper
                inside[own.id] = own.date
            if query is None:
                continue
            if not query.id:  # the file names no row, so its place in the panel does
                query = replace(query, id=f"row-{len(queries):06d}")
            for text in (query.id, query.question, *query.answers, *query.titles):
                if not is_unicode(text):
                    row.fail("question or answer", "valid Unicode", text)
            if query.id in places:
                row.complain("id", f"expected a new id, found {query.id!r} of {places[query.id]} again")
            places[query.id] = f"{row.unit} {row.number}"
            queries.append(query)
    if inside:
        queries = [kept for query in queries if (kept := answers_within(query, inside)).answers]
    if not queries:
        raise DataError(f"{', '.join(map(str, files))}: expected queries, found none")
    ids = [query.id for query in queries]
    return TaskSet(queries, dataset=queries[0].dataset, split=split, ids=ids, content_hash=sha256_of_all(files))


def answers_within(query: PaperQuery, dates: Mapping[str, str]) -> PaperQuery:
    """Return the query with the answers that a corpus holds.

    The cut-off is the date of the paper that the query was made of, or of the latest answer: what later versions of a
    paper cite may have appeared after the first.

    Args:
        query: The query.
        dates: When each paper of the corpus appeared.
    """
    kept = [(key, title) for key, title in zip(query.answers, query.titles, strict=True) if key in dates]
    known = [dates[key] for key, _ in kept if dates[key]]
    cutoff = max([query.cutoff, *known], key=last_allowed) if query.cutoff else ""
    return replace(query, answers=tuple(a for a, _ in kept), titles=tuple(t for _, t in kept), cutoff=cutoff)


def iter_papers(path: str | Path) -> Iterator[PaperRecord]:
    """Yield the papers of a corpus file: JSON lines, a JSON list or parquet; see :func:`rows.paper_record`.

    SPAR's benchmark is read as well: its papers are the answers of its queries.

    Raises:
        DataError: A missing or damaged file, a paper that is there twice, or no paper.
    """
    file = resolve(path)
    seen: set[str] = set()
    for row in read_rows(file):
        answers = isinstance(row.values.get("source_meta"), dict) and "answers" in row.values["source_meta"]
        records = spar_answers(row) if answers else [paper_record(row)]
        for record in records:
            if record.paper.id not in seen:
                seen.add(record.paper.id)
                yield record
            elif not answers:
                row.complain("id", f"expected a new id, found {record.paper.id!r} again")
    if not seen:
        raise DataError(f"{file}: expected papers, found none")


def load_corpus(path: str | Path) -> Corpus:
    """Return the corpus of a saved folder, mapped into memory, or of a file, indexed in memory.

    Raises:
        DataError: It is missing or damaged, or holds no word.
    """
    from agent_r1_envs.paper_search.backends.corpus import is_corpus_folder

    place = resolve(path)
    if place.is_dir():
        if not is_corpus_folder(place):
            raise DataError(f"{place}: no saved corpus here; build_corpus(file, folder) writes one")
        return Corpus.open(place)
    try:
        return Corpus.of(iter_papers(place))
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{place}: expected papers with words: {error}") from error


def build_corpus(file: str | Path, folder: str | Path) -> Corpus:
    """Index a corpus file into a folder, once, and return it mapped into memory.

    Raises:
        DataError: The file is missing or damaged.
    """
    Corpus.of(iter_papers(file)).save(folder)
    return Corpus.open(folder)
