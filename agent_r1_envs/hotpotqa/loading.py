"""Loads questions and corpora from local files in their official formats."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

from agent_r1_envs.errors import DataError
from agent_r1_envs.files import Row, check_strings, files_of_split, json_object, read_rows, resolve, sha256_of_all
from agent_r1_envs.hotpotqa.data import Paragraph, Question
from agent_r1_envs.hotpotqa.rows import FORMATS, READERS, Format, detect
from agent_r1_envs.hotpotqa.two_wiki import ALIASES_FILE, read_aliases
from agent_r1_envs.retrieval import Passage
from agent_r1_envs.retrieval.contents import parse_contents
from agent_r1_envs.tasks import TaskSet
from agent_r1_envs.text import is_unicode

# What a row of a corpus has, by which it is told from a corpus that is one object by title; how many names are read.
_ROWS: Final = (frozenset({"contents"}), frozenset({"title", "text"}), frozenset({"title", "sentences"}))
_NAMES: Final = 50

# What the files of a split are called, first match wins; shards of a parquet file are read in the order of their names.
_PATTERNS: Final[dict[str, tuple[str, ...]]] = {
    "train": (
        "hotpot_train_v1.1.json",
        "musique_ans_v1.0_train.jsonl",
        "train.json",
        "train.jsonl",
        "train.parquet",
        "train-*.parquet",
        "train_*processed.parquet",
    ),
    "validation": (
        "hotpot_dev_distractor_v1.json",
        "hotpot_dev_fullwiki_v1.json",
        "musique_ans_v1.0_dev.jsonl",
        "dev.json",
        "dev.jsonl",
        "dev.parquet",
        "validation.json",
        "validation.jsonl",
        "validation.parquet",
        "validation-*.parquet",
        "validation_*processed.parquet",
    ),
    "test": ("test.json", "test.jsonl", "test.parquet", "test-*.parquet"),
}


def load_questions(path: str | Path, *, split: str = "train", data_format: str = "auto") -> TaskSet[Question]:
    """Load the questions of a file, or of a split's file in a folder.

    Args:
        path: A file in any of the formats; or a folder that holds files under their official names. A relative path
            that is not found from here is looked up in the folder that ``AGENT_R1_DATA`` names.
        split: Which file of a folder; for a single file only the name that the tasks carry.
        data_format: ``auto``, or one of ``rows.FORMATS`` for files whose fields do not tell.

    Returns:
        The questions in the order of the file; its content hash is that of the files' bytes. Where 2Wiki's
        ``id_aliases.json`` lies beside the file, its names of an answer are accepted as well.

    Raises:
        DataError: A missing or damaged file; the message names file, row and field, what was expected and found.
        ValueError: An unknown format or split.
        ImportError: The file is parquet and pyarrow is missing; the message has the pip command.
    """
    if data_format != "auto" and data_format not in FORMATS:
        raise ValueError(f"data_format must be auto or one of {', '.join(FORMATS)}; got {data_format!r}")
    files = files_of_split(resolve(path), split, _PATTERNS)
    questions: list[Question] = []
    places: dict[str, str] = {}
    sources = list(files)
    for file in files:
        read, names = None, {}
        for row in read_rows(file):
            if read is None:  # all the rows of a file are of one kind, so the first decides
                chosen: Format = detect(row) if data_format == "auto" else data_format  # type: ignore[assignment]
                read = READERS[chosen]
                if chosen == "2wiki" and file.with_name(ALIASES_FILE).is_file():
                    names = read_aliases(file.with_name(ALIASES_FILE))
                    sources.append(file.with_name(ALIASES_FILE))
            question = read(row)
            if question is None:
                continue
            if not question.id:  # the file names no row, so its place in the panel does
                question = replace(question, id=f"row-{len(questions):06d}")
            if names and isinstance(entity := row.values.get("answer_id"), str):
                answers = dict.fromkeys((*question.answers, *names.get(entity, ())))
                question = replace(question, answers=tuple(answers))
            for text in (question.id, *question.answers):
                if not is_unicode(text):  # nobody could ask for it, or give it
                    row.fail("id or answer", "valid Unicode", text)
            if question.id in places:
                row.complain("id", f"expected a new id, found {question.id!r} of {places[question.id]} again")
            places[question.id] = f"{row.unit} {row.number}"
            questions.append(question)
    if not questions:
        raise DataError(f"{', '.join(map(str, files))}: expected questions, found none")
    dataset = questions[0].dataset
    return TaskSet(questions, dataset=dataset, split=split, ids=list(places), content_hash=sha256_of_all(sources))


def iter_corpus(path: str | Path) -> Iterator[Passage]:
    """Yield the passages of a corpus.

    JSON lines, a JSON list or parquet of ``{"title": .., "text": ..}``; of ``{"title": .., "sentences": [..]}``, as
    2Wiki's paragraphs; or of ``{"contents": ..}``, as in Search-R1's corpora, a quoted title, a line break and a text.
    A row may have an ``id`` (string or integer); otherwise its position is its id. Or, as HippoRAG's, one JSON object
    of a list of sentences, or a text, by title.

    Raises:
        DataError: As for :func:`load_questions`; also when there is no passage.
    """
    file = resolve(path)
    empty = True
    for passage in _by_title(file) if _is_by_title(file) else map(_passage, count(), read_rows(file)):
        empty = False
        yield passage
    if empty:
        raise DataError(f"{file}: expected passages, found none")


def _passage(position: int, row: Row) -> Passage:
    identity = row.values.get("id")
    id = str(identity) if isinstance(identity, str | int) else str(position)
    if "contents" in row.values and "text" not in row.values:
        return Passage(id, *parse_contents(row.text("contents")))
    title = row.text("title", blank=True)
    if "sentences" in row.values and "text" not in row.values:
        return Paragraph(title, tuple(row.strings("sentences"))).passage(id)
    return Passage(id, title, row.text("text", blank=True))


def _is_by_title(file: Path) -> bool:
    """Tell whether a file is one object by title: its names are then not those of a row, whatever else that holds."""
    pairs: list[tuple[str, Any]] = []
    with suppress(DataError):  # it may have several rows, or be damaged: whoever reads all of it will say
        for pair in islice(json_object(file), _NAMES):
            pairs.append(pair)
    names = {name for name, _ in pairs}
    return bool(pairs) and isinstance(pairs[0][1], list | str) and not any(row <= names for row in _ROWS)


def _by_title(file: Path) -> Iterator[Passage]:
    for position, (title, value) in enumerate(json_object(file)):
        text = value if isinstance(value, str) else None
        sentences = [text] if text is not None else check_strings(Row(file, position, {}), repr(title[:60]), value)
        yield Paragraph(title, tuple(sentences)).passage(str(position))
