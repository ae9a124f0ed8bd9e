"""What an agent reads: what became of its calls, and the list of papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agent_r1_envs.paper_search.backends.protocol import Search
from agent_r1_envs.paper_search.pool import Entry
from agent_r1_envs.paper_search.world import CallResult
from agent_r1_envs.text import ELLIPSIS, clean, cut, echo

TITLE_CHARS: Final = 300


def heading(entry: Entry) -> str:
    """Return the line of a paper: ``[paper_id] (score) [EXP|NEW] Title``."""
    mark = "EXP" if entry.expanded else "NEW"
    title = cut(" ".join(entry.paper.title.split()), TITLE_CHARS)
    return f"[{echo(entry.paper.id)}] ({entry.score:.2f}) [{mark}] {title}"


def first_words(text: str, count: int) -> str:
    """Return the first ``count`` words of a text; an ellipsis marks what was left out.

    >>> first_words("one two  three", 2)
    'one two…'
    """
    found = text.split(None, count)
    return " ".join(found[:count]) + (ELLIPSIS if len(found) > count else "")


def call_line(result: CallResult) -> str:
    """Say in one line what became of a call."""
    lookup = result.lookup
    call = f"search[{echo(lookup.query)}]" if isinstance(lookup, Search) else f"expand[{echo(lookup.paper_id)}]"
    if result.refused:
        return f"{call}: {result.refused}"
    if result.error:
        return f"{call}: failed, try again: {echo(result.error)}"
    papers = f"{result.found} paper{'' if result.found == 1 else 's'} found"
    return f"{call}: {papers}, {len(result.added)} new in the pool"


def pool_text(shown: Sequence[Entry], size: int, *, abstract_words: int, budget: int) -> str:
    """Return the list of papers.

    Args:
        shown: The papers of the list, in order.
        size: How many papers the pool holds.
        abstract_words: Most words of an abstract.
        budget: Most characters of the whole text; abstracts are cut further to fit.
    """
    if not size:
        return "The pool is empty."
    head = f"Pool: {size} paper{'' if size == 1 else 's'}, {len(shown)} shown"
    lines = [heading(entry) for entry in shown]
    room = (budget - len(head) - sum(len(line) + 2 for line in lines)) // max(len(lines), 1)
    texts = [cut(first_words(entry.paper.abstract, abstract_words), max(room, 0)) for entry in shown]
    return "\n".join([head, *(f"{line}\n{text}" if text else line for line, text in zip(lines, texts, strict=True))])


def pool_data(shown: Sequence[Entry], abstract_words: int) -> list[dict[str, Any]]:
    """Return the list of papers as JSON data, for prompts that are built anew each turn."""
    return [
        {
            "id": clean(entry.paper.id),
            "title": clean(cut(" ".join(entry.paper.title.split()), TITLE_CHARS)),
            "abstract": clean(first_words(entry.paper.abstract, abstract_words)),
            "score": entry.score,
            "expanded": entry.expanded,
        }
        for entry in shown
    ]
