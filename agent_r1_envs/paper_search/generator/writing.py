"""Titles and abstracts: one subject in many wordings."""

from __future__ import annotations

from random import Random
from typing import Final

from agent_r1_envs.paper_search.generator.lexicon import FINDINGS, REPORT_SENTENCES, REPORT_TITLE, pick, shuffled
from agent_r1_envs.paper_search.generator.subjects import Dataset, Method, Task

_TITLES: Final = (
    "{Method} for {task} with {angle}",
    "{Task} with {method}: the case of {angle}",
    "{Angle} and {method}: a study of {task}",
    "What {method} can do for {task} under {angle}",
    "Towards {task} with {angle}: {method} revisited",
    "{Task} and {angle} by means of {method}",
)
_OPENINGS: Final = (
    "Progress in {field} is held back by {angle}.",
    "{Task} is hard because of {angle}.",
    "Work in {field} often has to live with {angle}.",
    "Many decisions in {field} rest on {task}, in spite of {angle}.",
)
_APPROACHES: Final = (
    "We apply {method} to {task}.",
    "This paper studies {method} in {task}.",
    "Our system builds on {method} and is made for {task}.",
    "We ask whether {method} help with {task}.",
)
_DATA: Final = ("We evaluate on {dataset}.", "Experiments use the records of {dataset}.", "Tests on {dataset} follow.")
_NO_DATA: Final = ("We evaluate on public records.", "Experiments use two public collections.")
_FINDINGS: Final = ("We find that {finding}.", "Our main result: {finding}.", "In all settings {finding}.")
_CLOSINGS: Final = (
    "Code is available.",
    "We discuss limits and costs.",
    "An ablation shows which parts matter.",
    "Practitioners can use it as it is.",
)


def study(rng: Random, task: Task, method: Method, dataset: Dataset, finding: int, angle: str) -> tuple[str, str]:
    """Write title and abstract of a paper that applies a method to a task."""
    words = {
        "field": task.field,
        "angle": angle,
        "method": pick(rng, method.wordings),
        "dataset": dataset.name,
        "finding": pick(rng, FINDINGS[finding][1]),
    }
    title = _fill(pick(rng, _TITLES), {**words, "task": pick(rng, task.wordings)})
    data = _DATA if rng.random() < 0.75 else _NO_DATA
    sentences = [_OPENINGS, _APPROACHES, data, _FINDINGS, _CLOSINGS]
    text = [_fill(pick(rng, group), {**words, "task": pick(rng, task.wordings)}) for group in sentences]
    return title, " ".join(text)


def method_origin(method: Method) -> tuple[str, str]:
    """Write title and abstract of the paper that introduces a method, which has both of its names."""
    full, coined = method.wordings
    title = f"{coined}: {full} from first principles"
    return title, f"We introduce {full}, {coined} for short. The idea is general and we show it on toy problems."


def dataset_origin(dataset: Dataset, task: Task) -> tuple[str, str]:
    """Write title and abstract of the paper that introduces a data set."""
    title = f"{dataset.name}: a data set for {task.wordings[0]}"
    return title, f"We collect {dataset.name}, records for work on {task.wordings[0]} in {task.field}, and describe it."


def survey(rng: Random, task: Task) -> tuple[str, str]:
    """Write title and abstract of a survey of a task."""
    first, second = (pick(rng, task.wordings) for _ in range(2))
    return (
        f"{_capital(first)}: a survey",
        f"We review the literature on {second} in {task.field} and sort it by method.",
    )


def short_report(rng: Random) -> tuple[str, str]:
    """Write a title and an abstract that say nothing: the same words each time, in another order."""
    title = ", ".join(shuffled(rng, REPORT_TITLE))
    return _capital(title), " ".join(shuffled(rng, REPORT_SENTENCES))


def _fill(template: str, words: dict[str, str]) -> str:
    return template.format(**words, **{name.capitalize(): _capital(word) for name, word in words.items()})


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
