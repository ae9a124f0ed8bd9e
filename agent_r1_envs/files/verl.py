"""Rows of the tables that projects on verl train on: ``data_source``, ``prompt``, ``reward_model``, ``extra_info``.

What is inside differs from project to project, and a project's own columns may stand beside it. Agent-R1's scripts of
2025 wrote an ``extra_info`` of strings, and later none; Search-R1 writes ``split`` and ``index``, and all accepted
answers as ``{"target": [..]}``; Agent-R1's recipes write ``question_id`` and ``answers``.
"""

from collections.abc import Mapping
from typing import Any

from agent_r1_envs.files.fields import Row

_MARK = "Question: "


def verl_extra(row: Row) -> Row:
    """Return the fields of ``extra_info``, none where a row has no such field."""
    extra = row.values.get("extra_info")
    return row.nested("extra_info", {} if extra is None else extra)


def verl_id(row: Row) -> str:
    """Return a row's id, ``""`` for a row that only its place names.

    The id of the question where it has one; else source, split and index, which are unique in a table of several
    sources whose own ids are not; else the row's own id.
    """
    extra = verl_extra(row)
    for name in ("question_id", "id"):
        if extra.values.get(name) is not None:
            return extra.identity(name)
    if extra.values.get("index") is not None:
        parts = [row.values.get("data_source"), extra.values.get("split")]
        return "/".join([*(part for part in parts if isinstance(part, str) and part), extra.identity("index")])
    own = next((name for name in ("_id", "id") if row.values.get(name) is not None), None)
    return row.identity(own) if own else ""


def verl_question(row: Row) -> str:
    """Return the question: as a field of its own, or out of the prompt's last message of the user.

    An instruction around it that tells of ``<answer>`` is left out.
    """
    for holder in (verl_extra(row), row):
        if holder.values.get("question") is not None:
            return holder.text("question").strip()
    if isinstance(row.values.get("prompt"), str):
        text = row.text("prompt")
    else:
        messages = row.items("prompt", "chat messages")
        asked = [i for i, item in enumerate(messages) if isinstance(item, Mapping) and item.get("role") == "user"]
        if not asked:
            row.complain("prompt", "expected a message of the user, found none")
        text = row.nested(f"prompt[{asked[-1]}]", messages[asked[-1]]).text("content")
    before, mark, rest = text.partition(_MARK)
    if not mark:
        return text.strip()
    if not before.strip():
        question, _, instruction = rest.partition("\n")
        return (question if "<answer>" in instruction else text).strip()
    return (rest if "<answer>" in before else text).strip()


def verl_answers(row: Row) -> tuple[str, ...]:
    """Return the accepted answers, the first one first.

    They are ``ground_truth``, a string, a list or Search-R1's ``target``; then ``golden_answers`` of the row and
    ``answers`` of ``extra_info``.
    """
    model = row.nested("reward_model", row.get("reward_model", "an object"))
    answers: list[str] = []
    if model.values.get("ground_truth") is not None or row.values.get("golden_answers") is None:
        truth = model.get("ground_truth", "an answer")
        if isinstance(truth, Mapping):
            inner = model.nested("ground_truth", truth)
            answers += answer_list(inner, "target", inner.get("target", "answers"))
        else:
            answers += answer_list(model, "ground_truth", truth)
    for holder, field in ((row, "golden_answers"), (verl_extra(row), "answers")):
        if holder.values.get(field) is not None:
            answers += answer_list(holder, field, holder.values[field], least=0)
    return tuple(dict.fromkeys(answers))


def answer_list(row: Row, field: str, value: Any, *, least: int = 1) -> list[str]:
    """Return the answers in a string, a number or a list of these; blank ones are left out.

    Raises:
        DataError: It holds something else, or fewer than ``least`` answers.
    """
    answers = []
    for position, item in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(item, bool) or not isinstance(item, str | int):
            row.fail(f"{field}[{position}]" if isinstance(value, list) else field, "an answer (string)", item)
        if str(item).strip():
            answers.append(str(item))
    if len(answers) < least:
        row.fail(field, "an answer that is not blank", value)
    return answers
