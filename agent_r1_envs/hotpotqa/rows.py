"""From a row of each benchmark's own format to a question."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

from agent_r1_envs.files import Row, check_strings
from agent_r1_envs.files.verl import answer_list, verl_answers, verl_extra, verl_id, verl_question
from agent_r1_envs.hotpotqa.data import Dataset, Paragraph, Question

Format = Literal["hotpotqa", "hub", "2wiki", "musique", "flashrag", "search-r1", "agent-r1"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


def detect(row: Row) -> Format:
    """Tell a row's format by its fields.

    Raises:
        DataError: It fits none; the message says which fields were found.
    """
    has = row.values
    # Tables of other projects may keep all columns of the benchmark beside their own; then its own reader knows best.
    whole = "question" in has and "answer" in has
    if "reward_model" in has and not (whole and ("paragraphs" in has or {"context", "supporting_facts"} <= has.keys())):
        truth = has["reward_model"].get("ground_truth") if isinstance(has["reward_model"], Mapping) else None
        return "search-r1" if "golden_answers" in has or isinstance(truth, Mapping) else "agent-r1"
    if "paragraphs" in has:
        return "musique"
    if "evidences" in has:
        return "2wiki"
    if "context" in has:
        return "hub" if isinstance(has["context"], Mapping) else "hotpotqa"
    if "golden_answers" in has:
        return "flashrag"
    if "question" not in has and "text" in has:
        row.complain("question", "expected questions, found a corpus of titles and texts: pass it as corpus=")
    row.complain("question", f"expected a row of {', '.join(FORMATS)}, found the fields {sorted(map(str, has))[:12]}")


def hotpotqa(row: Row, dataset: Dataset = "hotpotqa") -> Question:
    """Read a row of the official JSON files, or of the hub's tables.

    Context and supporting facts are lists of pairs, two objects of parallel lists, lists of objects, or JSON of these
    in a string.
    """
    return Question(
        id=row.identity("_id" if "_id" in row.values else "id"),
        question=row.text("question"),
        answers=(row.text("answer"),),
        type=row.optional_text("type"),
        level=row.optional_text("level"),
        supporting=_supporting(row),
        paragraphs=_context(row),
        dataset=dataset,
    )


def two_wiki(row: Row) -> Question:
    """Read a row of 2WikiMultihopQA, HotpotQA's with evidence triples that the environment does not need."""
    return hotpotqa(row, dataset="2wikimultihopqa")


def musique(row: Row) -> Question | None:
    """Read a row of MuSiQue; None for the unanswerable twins of the full version, which have no gold answer."""
    if "answerable" in row.values and not row.boolean("answerable"):
        return None
    paragraphs, marked = [], []
    for position, item in enumerate(row.items("paragraphs", "objects")):
        inner = row.nested(f"paragraphs[{position}]", item)
        paragraphs.append(Paragraph(inner.text("title", blank=True), (inner.text("paragraph_text", blank=True),)))
        if inner.boolean("is_supporting"):
            marked.append(position)
    aliases = row.strings("answer_aliases") if row.values.get("answer_aliases") is not None else []
    return Question(
        id=row.identity("id"),
        question=row.text("question"),
        answers=(row.text("answer"), *aliases),
        type=row.identity("id").partition("__")[0],
        supporting=tuple((paragraphs[position].title, 0) for position in marked),
        paragraphs=tuple(paragraphs),
        dataset="musique",
        marked=_hops(row, tuple(marked)),
    )


def flashrag(row: Row) -> Question:
    """Read a row of FlashRAG's data sets: a question and its answers; of some, ``metadata`` has the context as well."""
    meta = row.nested("metadata", row.values.get("metadata") or {})
    with_context = meta.values.get("context") is not None and meta.values.get("supporting_facts") is not None
    name = next((name for name in ("id", "_id", "src_id", "index") if row.values.get(name) is not None), None)
    return Question(
        id=row.identity(name) if name else "",
        question=row.text("question"),
        answers=tuple(dict.fromkeys(answer_list(row, "golden_answers", row.get("golden_answers", "answers")))),
        type=meta.optional_text("type"),
        level=meta.optional_text("level"),
        supporting=_supporting(meta) if with_context else (),
        paragraphs=_context(meta) if with_context else (),
        dataset="flashrag",
    )


def agent_r1(row: Row, dataset: Dataset = "agent-r1") -> Question:
    """Read a row of a table for verl, such as Agent-R1's: a question and its answers, without a context."""
    extra = verl_extra(row)
    return Question(
        id=verl_id(row),
        question=verl_question(row),
        answers=verl_answers(row),
        type=extra.optional_text("type"),
        level=extra.optional_text("level"),
        dataset=dataset,
    )


def search_r1(row: Row) -> Question:
    """Read a row of Search-R1's tables for verl."""
    return agent_r1(row, dataset="search-r1")


READERS: Final[dict[Format, Callable[[Row], Question | None]]] = {
    "hotpotqa": hotpotqa,
    "hub": hotpotqa,
    "2wiki": two_wiki,
    "musique": musique,
    "flashrag": flashrag,
    "search-r1": search_r1,
    "agent-r1": agent_r1,
}


def _context(row: Row) -> tuple[Paragraph, ...]:
    value = row.decoded("context", "a list of [title, [sentence, ...]] pairs")
    if isinstance(value, Mapping):
        context = row.nested("context", value)
        sentences = _sentences_field(context)
        titles, texts = context.strings("title"), context.items(sentences, "lists of sentences")
        if len(titles) != len(texts):
            context.complain(sentences, f"expected one list for each of {len(titles)} titles, found {len(texts)}")
        return tuple(
            Paragraph(title, tuple(check_strings(context, f"{sentences}[{i}]", text)))
            for i, (title, text) in enumerate(zip(titles, texts, strict=True))
        )
    paragraphs = []
    for position, item in enumerate(_items(row, "context", value, "[title, [sentence, ...]] pairs")):
        field = f"context[{position}]"
        if isinstance(item, Mapping):
            inner = row.nested(field, item)
            paragraphs.append(Paragraph(inner.text("title", blank=True), tuple(inner.strings(_sentences_field(inner)))))
            continue
        title, sentences = _pair(row, field, item, "a [title, [sentence, ...]] pair")
        if not isinstance(title, str):
            row.fail(f"{field}[0]", "a title (string)", title)
        paragraphs.append(Paragraph(title, tuple(check_strings(row, f"{field}[1]", sentences))))
    return tuple(paragraphs)


def _supporting(row: Row) -> tuple[tuple[str, int], ...]:
    value = row.decoded("supporting_facts", "a list of [title, sentence index] pairs")
    if isinstance(value, Mapping):
        facts = row.nested("supporting_facts", value)
        names, numbers = facts.strings("title"), facts.items("sent_id", "integers")
        if len(names) != len(numbers):
            facts.complain("sent_id", f"expected one for each of {len(names)} titles, found {len(numbers)}")
        return tuple(_fact(facts, f"[{i}]", *fact) for i, fact in enumerate(zip(names, numbers, strict=True)))
    supporting = []
    for position, item in enumerate(_items(row, "supporting_facts", value, "[title, sentence index] pairs")):
        field = f"supporting_facts[{position}]"
        if isinstance(item, Mapping):
            item = [item.get("title"), item.get("sent_id")]
        title, sentence = _pair(row, field, item, "a [title, sentence index] pair")
        supporting.append(_fact(row, field, title, sentence))
    return tuple(supporting)


def _sentences_field(context: Row) -> str:
    return "content" if "content" in context.values and "sentences" not in context.values else "sentences"


def _items(row: Row, field: str, value: Any, of: str) -> list[Any]:
    if not isinstance(value, list):
        row.fail(field, f"a list of {of}", value)
    return value


def _pair(row: Row, field: str, value: Any, expected: str) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2:
        row.fail(field, expected, value)
    return value[0], value[1]


def _fact(row: Row, field: str, title: Any, sentence: Any) -> tuple[str, int]:
    # An index beyond the sentences is let through: the official files hold some.
    if not isinstance(title, str):
        row.fail(f"{field}[0]", "a title (string)", title)
    if isinstance(sentence, bool) or not isinstance(sentence, int) or sentence < 0:
        row.fail(f"{field}[1]", "a sentence index of at least 0", sentence)
    return title, sentence


def _hops(row: Row, marked: tuple[int, ...]) -> tuple[int, ...]:
    """Order the supporting paragraphs as the decomposition visits them, where the row has one."""
    steps = row.values.get("question_decomposition")
    if not isinstance(steps, list):
        return marked
    visited = [step.get("paragraph_support_idx") for step in steps if isinstance(step, Mapping)]
    return tuple(sorted(marked, key=lambda position: (*visited, position).index(position)))
