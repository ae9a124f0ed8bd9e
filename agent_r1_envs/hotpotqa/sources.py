"""Where questions and passages come from: embedded or local data, a task's own paragraphs or a whole corpus."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from agent_r1_envs.cache import load_once, make_once
from agent_r1_envs.errors import DataError
from agent_r1_envs.files import resolve
from agent_r1_envs.hotpotqa.data import Question
from agent_r1_envs.hotpotqa.embedded import load_panel
from agent_r1_envs.hotpotqa.generator import PANEL
from agent_r1_envs.hotpotqa.loading import iter_corpus, load_questions
from agent_r1_envs.hotpotqa.two_wiki import ALIASES_FILE
from agent_r1_envs.retrieval import Passage, Retriever, make_retriever, words
from agent_r1_envs.tasks import TaskSet

Retrieval = Literal["distractor", "corpus"]
RetrieverSpec = str | Mapping[str, Any] | Retriever


def load_tasks(split: str, data: str | Path | None, data_format: str) -> TaskSet[Question]:
    """Return the questions of a split, embedded or from ``data``, loaded once per process.

    Raises:
        ValueError: There is no such split or format.
        DataError: A file is missing or damaged.
    """
    if split not in PANEL:
        raise ValueError(f"split must be one of {', '.join(PANEL)}; got {split!r}")
    if data is None:
        if data_format != "auto":
            raise ValueError(f"data_format={data_format!r} needs data=, a local path; the embedded data have no format")
        return load_panel(split)

    def load(path: Path) -> TaskSet[Question]:
        return load_questions(path, split=split, data_format=data_format)

    place = resolve(data)
    also = [place.with_name(ALIASES_FILE)] if place.is_file() else []
    return load_once(place, load, key=(split, data_format), also=also)


def scorer_of(tasks: TaskSet[Question]) -> str:
    """Return the official script that an answer's figures equal."""
    if tasks.dataset == "musique":
        return "MuSiQue's metrics/answer.py"
    if tasks.dataset != "2wikimultihopqa":
        return "hotpot_evaluate_v1.py"
    named = any(len(question.answers) > 1 for question in tasks)
    return "2wikimultihop_evaluate_v1.1.py" if named else "2wikimultihop_evaluate.py"


def has_own_index(spec: RetrieverSpec) -> bool:
    """Tell whether a retriever brings its own corpus: a server, a saved index or a live object."""
    return not isinstance(spec, str) and not (isinstance(spec, Mapping) and "name" in spec)


def check_retrieval(tasks: TaskSet[Question], retrieval: str, retriever: RetrieverSpec, corpus: Any) -> None:
    """Raise ValueError for a combination that cannot work, and say which one does."""
    if retrieval not in ("distractor", "corpus"):
        raise ValueError(f"retrieval must be 'distractor' or 'corpus'; got {retrieval!r}")
    own = has_own_index(retriever)
    if retrieval == "distractor":
        if own:
            raise ValueError(f"retriever={retriever!r} searches a corpus of its own: pass retrieval='corpus'")
        if corpus is not None:
            raise ValueError("corpus= is searched only with retrieval='corpus'")
        example = next((passages for passages in map(own_passages, tasks) if hold_a_word(passages)), None)
        if example is None:
            raise ValueError(
                f"the questions of {tasks.dataset!r} come without paragraphs: pass retrieval='corpus' with corpus= or "
                "a retriever that has an index"
            )
        make_retriever(retriever, example)  # so that a wrong form raises here, not in an episode
    elif own and corpus is not None:
        raise ValueError(f"retriever={retriever!r} has a corpus of its own: leave out corpus=")


def corpus_retriever(tasks: TaskSet[Question], retriever: RetrieverSpec, corpus: str | Path | None) -> Retriever:
    """Return the retriever over a corpus file, a saved index or all paragraphs of the tasks; made once per process.

    Raises:
        ValueError: The retriever's form is unknown, or there is nothing to search.
        DataError: The corpus is missing or damaged.
    """
    if has_own_index(retriever):
        if not isinstance(retriever, Mapping) or not isinstance(retriever.get("path"), str):
            return make_retriever(retriever, None)
        options = dict(retriever)

        def saved(path: Path) -> Retriever:
            return make_retriever({**options, "path": path}, None)

        return load_once(resolve(options.pop("path")), saved, key=_key(options))
    key = _key(retriever)
    if corpus is not None:

        def index(path: Path) -> Retriever:
            passages = list(iter_corpus(path))
            if not hold_a_word(passages):
                raise DataError(f"{path}: expected passages with words, found none")
            return make_retriever(retriever, passages)

        return load_once(resolve(corpus), index, key=key)
    if not any(hold_a_word(own_passages(question)) for question in tasks):
        raise ValueError(
            f"the questions of {tasks.dataset!r} come without paragraphs: pass corpus= or a retriever with an index"
        )

    def own() -> Retriever:
        return make_retriever(retriever, all_paragraphs(tasks))

    return make_once(("hotpotqa corpus", tasks.content_hash, key), own)


def own_passages(question: Question) -> list[Passage]:
    """Return a task's own paragraphs; an id is the position in the context."""
    return [paragraph.passage(str(position)) for position, paragraph in enumerate(question.paragraphs)]


def hold_a_word(passages: Iterable[Passage]) -> bool:
    """Tell whether there is anything to search for in the passages."""
    return any(words(passage.document) for passage in passages)


def all_paragraphs(tasks: Iterable[Question]) -> list[Passage]:
    """Return the distinct paragraphs of all tasks, in the order of their first appearance."""
    distinct: dict[tuple[str, str], Passage] = {}
    for question in tasks:
        for paragraph in question.paragraphs:
            passage = paragraph.passage(str(len(distinct)))
            distinct.setdefault((passage.title, passage.text), passage)
    return list(distinct.values())


def _key(spec: RetrieverSpec) -> str:
    return repr(sorted(spec.items()) if isinstance(spec, Mapping) else spec)
