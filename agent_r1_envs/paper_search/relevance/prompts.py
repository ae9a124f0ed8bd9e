"""What selectors that are language models are asked."""

from __future__ import annotations

from typing import Final

from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery

PLACES: Final = ("{query}", "{title}", "{abstract}")

QUESTION: Final = (
    "A researcher asks: {query}\n\n"
    "Does the paper below answer the request in every point it makes? Reply with one word, True or False.\n\n"
    "Title: {title}\nAbstract: {abstract}\n\nAnswer:"
)


def check_prompt(prompt: str) -> str:
    """Return a prompt that has a place for the query and the title.

    Raises:
        ValueError: If it has not.
    """
    missing = [place for place in PLACES[:2] if place not in prompt]
    if missing:
        raise ValueError(f"a prompt needs {' and '.join(missing)}; there are {', '.join(PLACES)}")
    return prompt


def fill_prompt(prompt: str, query: PaperQuery, paper: Paper) -> str:
    """Put a query and a paper into a prompt; braces in their texts are left alone."""
    values = dict(zip(PLACES, (query.question, paper.title, paper.abstract), strict=True))
    parts = [prompt]
    for place, value in values.items():
        parts = [piece for part in parts for piece in _split(part, place, value)]
    return "".join(str(part) for part in parts)


class _Value(str):
    """Text that was put in, in which no place is looked for."""


def _split(part: str, place: str, value: str) -> list[str]:
    if isinstance(part, _Value):
        return [part]
    pieces: list[str] = []
    for number, piece in enumerate(part.split(place)):
        pieces += [_Value(value), piece] if number else [piece]
    return pieces
