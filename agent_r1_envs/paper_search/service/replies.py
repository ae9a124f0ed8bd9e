"""What the service answers, as pure functions of a corpus and a request's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_r1_envs.paper_search.backends.corpus import Corpus
from agent_r1_envs.paper_search.papers.data import Paper
from agent_r1_envs.paper_search.papers.identity import date_digits, is_arxiv

LARGEST_SEARCH: Final = 100
LARGEST_PAGE: Final = 1000
MOST_MATCHES: Final = 1000
"""How far a search can be read on, as in the original."""

_PAPER_FIELDS: Final = (
    "paperId",
    "externalIds",
    "title",
    "abstract",
    "year",
    "publicationDate",
    "authors",
    "citationCount",
    "referenceCount",
)


class BadRequest(ValueError):
    """A parameter is missing or out of range; the text is for the caller."""


def search(corpus: Corpus, params: Mapping[str, str]) -> dict[str, Any]:
    """Answer ``GET /paper/search``.

    Raises:
        BadRequest: A parameter is missing or out of range.
    """
    query = params.get("query", "")
    if not query.strip():
        raise BadRequest("Missing required parameter: query")
    offset, limit = _window(params, 10, LARGEST_SEARCH)
    fields = _fields(params)
    first, last = _years(params.get("year", ""))
    least = _integer(params, "minCitationCount", 0)
    matches = []
    for paper in corpus.search(query, MOST_MATCHES, cutoff=last):
        position = corpus.position(paper.id)
        if position is None or (first and paper.date < first):
            continue
        if len(corpus.graph.citing(position)) >= least:
            matches.append(position)
    data = [_shown(corpus, position, fields) for position in matches[offset : offset + limit]]
    return {"total": len(matches), **_page(offset, len(data), len(matches)), "data": data}


def paper(corpus: Corpus, name: str, params: Mapping[str, str]) -> dict[str, Any] | None:
    """Answer ``GET /paper/{id}``; None for a paper that the corpus lacks."""
    position = corpus.position(name)
    return None if position is None else _shown(corpus, position, _fields(params))


def neighbours(corpus: Corpus, name: str, params: Mapping[str, str], *, citing: bool) -> dict[str, Any] | None:
    """Answer ``GET /paper/{id}/citations`` or ``/references``; None for a paper that the corpus lacks.

    Raises:
        BadRequest: A parameter is out of range.
    """
    position = corpus.position(name)
    if position is None:
        return None
    offset, limit = _window(params, 100, LARGEST_PAGE)
    fields = _fields(params)
    places = (corpus.graph.citing if citing else corpus.graph.cited_by)(position).tolist()
    key = "citingPaper" if citing else "citedPaper"
    data = [{key: _shown(corpus, place, fields)} for place in places[offset : offset + limit]]
    return {**_page(offset, len(data), len(places)), "data": data}


def _shown(corpus: Corpus, position: int, fields: Sequence[str]) -> dict[str, Any]:
    found = corpus.paper(position)
    values: dict[str, Any] = {
        "paperId": found.id,
        "externalIds": {"ArXiv": found.id} if is_arxiv(found.id) else {},
        "title": found.title,
        "abstract": found.abstract or None,
        "year": int(found.date[:4]) if found.date else None,
        "publicationDate": _day(found),
        "authors": [],
        "citationCount": len(corpus.graph.citing(position)),
        "referenceCount": len(corpus.graph.cited_by(position)),
    }
    return {name: values[name] for name in fields}


def _day(found: Paper) -> str | None:
    date = found.date
    return f"{date[:4]}-{date[4:6]}-{date[6:]}" if len(date) == 8 else None


def _fields(params: Mapping[str, str]) -> list[str]:
    asked = [name.strip() for name in params.get("fields", "title").split(",") if name.strip()]
    unknown = [name for name in asked if name not in _PAPER_FIELDS]
    if unknown:
        raise BadRequest(f"Unrecognized or unsupported fields: [{', '.join(unknown)}]")
    return list(dict.fromkeys(["paperId", *asked]))


def _window(params: Mapping[str, str], default: int, largest: int) -> tuple[int, int]:
    limit = _integer(params, "limit", default)
    if not 1 <= limit <= largest:
        raise BadRequest(f"limit must be from 1 to {largest}")
    return _integer(params, "offset", 0), limit


def _integer(params: Mapping[str, str], name: str, default: int) -> int:
    text = params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise BadRequest(f"{name} must be a number of at least 0")
    return int(text)


def _years(text: str) -> tuple[str, str]:
    """Read ``2019``, ``2016-2020``, ``2010-`` or ``-2015``."""
    first, dash, last = text.partition("-")
    years = (first, last if dash else first)
    if any(year and len(date_digits(year)) != 4 for year in years):
        raise BadRequest("year must be a year or a range of years, such as 2016-2020")
    return years


def _page(offset: int, shown: int, total: int) -> dict[str, int]:
    following = offset + shown
    return {"offset": offset, "next": following} if shown and following < total else {"offset": offset}
