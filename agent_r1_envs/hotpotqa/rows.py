"""From a row of each benchmark's own format to a question."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

from agent_r1_envs.hotpotqa.data import Dataset, Paragraph, Question
from agent_r1_envs.hotpotqa.fields import Row, check_strings

Format = Literal["hotpotqa", "hub", "2wiki", "musique", "agent-r1"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


def detect(row: Row) -> Format:
    """Tell a row's format by its fields.

    Raises:
        DataError: It fits none; the message says which fields were found.
    """
    has = row.values
    if "reward_model" in has:
        return "agent-r1"
    if "paragraphs" in has:
        return "musique"
    if isinstance(has.get("context"), Mapping):
        return "hub"
    if "evidences" in has:
        return "2wiki"
    if "context" in has:
        return "hotpotqa"
    if "question" not in has and "text" in has:
        row.complain("question", "expected questions, found a corpus of titles and texts: pass it as corpus=")
    row.complain("question", f"expected a row of {', '.join(FORMATS)}, found the fields {sorted(map(str, has))[:12]}")


def hotpotqa(row: Row, dataset: Dataset = "hotpotqa") -> Question:
    """Read a row of the official JSON files: context and supporting facts as lists of pairs."""
    paragraphs = []
    for position, item in enumerate(row.items("context", "[title, [sentence, ...]] pairs")):
        field = f"context[{position}]"
        title, sentences = _pair(row, field, item, "a [title, [sentence, ...]] pair")
        if not isinstance(title, str):
            row.fail(f"{field}[0]", "a title (string)", title)
        paragraphs.append(Paragraph(title, tuple(check_strings(row, f"{field}[1]", sentences))))
    supporting = []
    for position, item in enumerate(row.items("supporting_facts", "[title, sentence index] pairs")):
        title, sentence = _pair(row, f"supporting_facts[{position}]", item, "a [title, sentence index] pair")
        supporting.append(_fact(row, f"supporting_facts[{position}]", title, sentence))
    return Question(
        id=row.text("_id" if "_id" in row.values else "id"),
        question=row.text("question"),
        answers=(row.text("answer"),),
        type=row.optional_text("type"),
        level=row.optional_text("level"),
        supporting=tuple(supporting),
        paragraphs=tuple(paragraphs),
        dataset=dataset,
    )


def hub(row: Row) -> Question:
    """Read a row of the hub's parquet files: the same as two objects of parallel lists."""
    context = row.nested("context", row.get("context", "an object of lists"))
    titles, texts = context.strings("title"), context.items("sentences", "lists of sentences")
    if len(titles) != len(texts):
        context.complain("sentences", f"expected one list for each of {len(titles)} titles, found {len(texts)}")
    facts = row.nested("supporting_facts", row.get("supporting_facts", "an object of lists"))
    names, sentences = facts.strings("title"), facts.items("sent_id", "integers")
    if len(names) != len(sentences):
        facts.complain("sent_id", f"expected one for each of {len(names)} titles, found {len(sentences)}")
    return Question(
        id=row.text("id"),
        question=row.text("question"),
        answers=(row.text("answer"),),
        type=row.optional_text("type"),
        level=row.optional_text("level"),
        supporting=tuple(_fact(facts, f"[{i}]", *fact) for i, fact in enumerate(zip(names, sentences, strict=True))),
        paragraphs=tuple(
            Paragraph(title, tuple(check_strings(context, f"sentences[{i}]", text)))
            for i, (title, text) in enumerate(zip(titles, texts, strict=True))
        ),
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
        id=row.text("id"),
        question=row.text("question"),
        answers=(row.text("answer"), *aliases),
        type=row.text("id").partition("__")[0],
        supporting=tuple((paragraphs[position].title, 0) for position in marked),
        paragraphs=tuple(paragraphs),
        dataset="musique",
        marked=_hops(row, tuple(marked)),
    )


def agent_r1(row: Row) -> Question:
    """Read a row of Agent-R1's processed parquet files: a question and its answers, without a context."""
    extra = row.nested("extra_info", row.get("extra_info", "an object"))
    truth = row.nested("reward_model", row.get("reward_model", "an object")).text("ground_truth")
    aliases = extra.strings("answers") if extra.values.get("answers") is not None else []
    # The prompt's last message is the question, unless the row says it plainly.
    where, field = (extra, "question") if extra.values.get("question") is not None else (row, "prompt")
    if field == "prompt":
        messages = row.items("prompt", "chat messages")
        if not messages:
            row.complain("prompt", "expected at least one message, found none")
        where, field = row.nested(f"prompt[{len(messages) - 1}]", messages[-1]), "content"
    return Question(
        id=extra.text("question_id"),
        question=where.text(field),
        answers=tuple(dict.fromkeys((truth, *aliases))),
        type=extra.optional_text("type"),
        level=extra.optional_text("level"),
        dataset="agent-r1",
    )


READERS: Final[dict[Format, Callable[[Row], Question | None]]] = {
    "hotpotqa": hotpotqa,
    "hub": hub,
    "2wiki": two_wiki,
    "musique": musique,
    "agent-r1": agent_r1,
}


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
