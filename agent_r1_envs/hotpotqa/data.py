"""The data model: a question, its accepted answers and the paragraphs that it comes with."""

import html
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from agent_r1_envs.retrieval import Passage

Dataset = Literal["synthetic", "hotpotqa", "2wikimultihopqa", "musique", "flashrag", "search-r1", "agent-r1"]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph of a question's context.

    Attributes:
        title: Title of the article, as the file has it; may hold HTML entities, and need not be unique.
        sentences: The sentences as the file has them; HotpotQA's carry their own leading spaces, 2Wiki's do not.
    """

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentences, joined with single spaces where they carry none themselves."""
        text = ""
        for sentence in self.sentences:
            gap = "" if not text or text[-1].isspace() or sentence[:1].isspace() else " "
            text += gap + sentence
        return text.strip()

    def passage(self, id: str) -> Passage:
        """Return what a retriever indexes and a reader sees: HTML entities of the title are resolved."""
        return Passage(id, html.unescape(self.title), self.text)


@dataclass(frozen=True)
class Question:
    """One task.

    Attributes:
        id: Unique in its file.
        question: The question.
        answers: Every accepted answer, the official one first.
        type: ``bridge`` or ``comparison``; 2Wiki and MuSiQue have their own names; empty if the file has none.
        level: ``easy``, ``medium``, ``hard``, or empty.
        supporting: The supporting facts, as (title, index of the sentence), as the file has them.
        paragraphs: The context, gold paragraphs among distractors; empty in files of questions only.
        dataset: Which benchmark's metric applies.
        marked: Positions of the supporting paragraphs, where the file marks paragraphs and titles may repeat (MuSiQue).
    """

    id: str
    question: str
    answers: tuple[str, ...]
    type: str = ""
    level: str = ""
    supporting: tuple[tuple[str, int], ...] = ()
    paragraphs: tuple[Paragraph, ...] = ()
    dataset: Dataset = "hotpotqa"
    marked: tuple[int, ...] | None = None

    @property
    def answer(self) -> str:
        """The official answer."""
        return self.answers[0]

    @property
    def task_type(self) -> str:
        """Its type, by the name that panels of all environments have for it."""
        return self.type

    @cached_property
    def gold(self) -> tuple[int, ...]:
        """Positions of the supporting paragraphs, in the order of the supporting facts; absent ones are left out."""
        if self.marked is not None:
            return self.marked
        first: dict[str, int] = {}
        for position, paragraph in enumerate(self.paragraphs):
            first.setdefault(paragraph.title, position)
        return tuple(first[title] for title in dict.fromkeys(t for t, _ in self.supporting) if title in first)
