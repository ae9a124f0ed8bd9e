"""What the Graph API sends: papers, pages of papers, and the names that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from agent_r1_envs.paper_search.papers.data import Paper
from agent_r1_envs.paper_search.papers.identity import arxiv_month, date_digits, is_arxiv, paper_key

FIELDS: Final = "title,abstract,year,authors,externalIds,publicationDate"


def read_paper(value: Any) -> Paper | None:
    """Return the paper of a reply; None for an entry without an id or a title, of which there are some.

    A paper with an arXiv id is named by it, another one by the service's own id. The date is the publication date,
    the month of the arXiv id, or the year: the first of them that is there.
    """
    if not isinstance(value, Mapping):
        return None
    external = value.get("externalIds")
    arxiv = external.get("ArXiv") if isinstance(external, Mapping) else None
    key = paper_key(arxiv) if isinstance(arxiv, str) else value.get("paperId")
    title = value.get("title")
    if not isinstance(key, str) or not key.strip() or not isinstance(title, str) or not title.strip():
        return None
    abstract = value.get("abstract")
    dates = (date_digits(value.get("publicationDate")), arxiv_month(key), date_digits(value.get("year")))
    return Paper(
        id=paper_key(key),
        title=" ".join(title.split()),
        abstract=abstract if isinstance(abstract, str) else "",
        date=next(filter(None, dates), ""),
    )


def read_page(body: Mapping[str, Any], inside: str) -> tuple[list[Paper], int | None]:
    """Return the papers of a page, and the offset of the next page if there is one.

    Args:
        body: The reply.
        inside: The key under which an entry holds its paper, ``""`` for an entry that is one.
    """
    entries = body.get("data")
    if not isinstance(entries, list):  # null where a publisher keeps references back
        entries = []
    values = [entry.get(inside) if inside and isinstance(entry, Mapping) else entry for entry in entries]
    papers = [paper for value in values if (paper := read_paper(value)) is not None]
    following = body.get("next")
    return papers, following if isinstance(following, int) and not isinstance(following, bool) else None


def path_of(key: str) -> str:
    """Return the part of an address that names a paper.

    >>> path_of("2501.10120"), path_of("10.2139/ssrn.2250500")
    ('ARXIV:2501.10120', '10.2139/ssrn.2250500')
    """
    return quote(f"ARXIV:{key}" if is_arxiv(key) else key, safe="/:.")
