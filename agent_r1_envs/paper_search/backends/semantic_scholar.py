"""The live service: Semantic Scholar's Graph API, or anything that speaks it.

What it sends, papers and pages of papers, is checked here before anything else reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import httpx

from agent_r1_envs.paper_search.backends.patient_client import (
    LoopThread,
    Mode,
    Patience,
    PatientClient,
    Recordings,
    ServiceError,
    Traffic,
)
from agent_r1_envs.paper_search.backends.protocol import Expand, Found, Limits, Lookup
from agent_r1_envs.paper_search.papers.data import Paper
from agent_r1_envs.paper_search.papers.identity import (
    arxiv_month,
    date_digits,
    earliest,
    is_arxiv,
    last_allowed,
    paper_key,
)
from agent_r1_envs.services.per_process import PerProcess
from agent_r1_envs.services.retry import RetryPolicy

FIELDS: Final = "title,abstract,year,authors,externalIds,publicationDate"
BASE_URL: Final = "https://api.semanticscholar.org/graph/v1"
_LARGEST_PAGE: Final = 1000
_LARGEST_SEARCH: Final = 100
_FILTERED_PAGE: Final = 100
_MOST_PAGES: Final = 4


class SemanticScholarBackend:
    """Searches with ``/paper/search`` and expands with ``/paper/{id}/citations`` and ``/references``.

    The calls of a turn run at the same time. A paper that the service does not have has no neighbours; a call that
    fails for good is answered with an error. Pages are read on, up to four, while a cut-off date leaves too few papers.

    Safe to share between threads, to pickle, and to use after a fork.

    Args:
        base_url: Address of the API.
        api_key_env: The environment variable that holds the key, if there is one. The key goes into the header
            ``x-api-key`` and nowhere else: not into recordings, errors, logs, pickles or specs.
        connections: Most requests at a time, over all envs that share this object.
        requests_per_second: Most requests a second; 0 for no limit.
        timeout: Seconds that a whole reply may take.
        retries: How often a request is repeated after the first failure.
        backoff: Seconds that the first pause lasts at most.
        longest_pause: Seconds; a longer ``Retry-After`` is cut to it.
        recordings: A folder in which replies are kept; None for none.
        mode: ``"auto"``: ask for what is not recorded. ``"record"``: ask for everything. ``"replay"``: ask for nothing.

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        base_url: str = BASE_URL,
        *,
        api_key_env: str = "S2_API_KEY",
        connections: int = 4,
        requests_per_second: float = 0.0,
        timeout: float = 20.0,
        retries: int = 5,
        backoff: float = 1.0,
        longest_pause: float = 60.0,
        recordings: str | None = None,
        mode: Mode = "auto",
    ) -> None:
        parts = httpx.URL(base_url)
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ValueError(f"expected an address like http://host:port/graph/v1, got {base_url!r}")
        self.base_url = base_url
        self._api_key_env = api_key_env
        self._patience = Patience(
            connections, requests_per_second, timeout, RetryPolicy(retries, backoff, longest_pause)
        )
        if recordings is None and mode != "auto":
            raise ValueError(f"mode={mode!r} needs recordings=, a folder")
        self._recordings = None if recordings is None else Recordings(recordings, mode)
        self._thread = LoopThread()
        self._client: PerProcess[PatientClient] = PerProcess()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_thread": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "_thread": LoopThread()}

    def __deepcopy__(self, memo: dict[int, Any]) -> SemanticScholarBackend:
        return self

    def __repr__(self) -> str:
        return f"SemanticScholarBackend({self.base_url!r})"

    @property
    def traffic(self) -> Traffic:
        """Requests, retries and failures so far, in this process."""
        return Traffic() if self._client.made is None else self._client.made.traffic

    def look_up(self, lookups: Sequence[Lookup], limits: Limits, cutoff: str = "") -> list[Found]:
        """Answer the calls of a turn; see :class:`~agent_r1_envs.paper_search.backends.protocol.Backend`."""
        return self._thread.run(self._look_up(lookups, limits, cutoff))

    def paper(self, paper_id: str) -> Paper | None:
        """Return one paper, or None if the service does not have it.

        Raises:
            ServiceError: If the service fails.
        """
        return self._thread.run(self._paper(paper_id))

    def describe(self) -> dict[str, Any]:
        """Return name and address."""
        return {"name": "semantic_scholar", "base_url": self.base_url}

    def close(self) -> None:
        """Close the connections and end the thread; the next call opens new ones."""
        if client := self._client.take():
            self._thread.run(client.close())
        self._thread.close()

    async def _look_up(self, lookups: Sequence[Lookup], limits: Limits, cutoff: str) -> list[Found]:
        return list(await asyncio.gather(*(self._answer(lookup, limits, cutoff) for lookup in lookups)))

    async def _answer(self, lookup: Lookup, limits: Limits, cutoff: str) -> Found:
        try:
            if isinstance(lookup, Expand):
                name = f"/paper/{path_of(paper_key(lookup.paper_id))}"
                groups = await asyncio.gather(
                    self._pages(f"{name}/citations", {}, "citingPaper", limits.citations, cutoff),
                    self._pages(f"{name}/references", {}, "citedPaper", limits.references, cutoff),
                )
                papers = [paper for group in groups for paper in group]
            else:
                # The service finds nothing for a word with a hyphen.
                params = {"query": " ".join(lookup.query.replace("-", " ").split())}
                if not params["query"]:
                    return Found()
                if cutoff:
                    params["year"] = f"-{cutoff[:4]}"
                papers = await self._pages("/paper/search", params, "", limits.search, cutoff)
        except ServiceError as error:
            return Found(error=str(error))
        distinct: dict[str, Paper] = {}
        for paper in papers:
            distinct.setdefault(paper.id, paper)
        return Found(tuple(distinct.values()))

    async def _pages(self, path: str, params: dict[str, str], inside: str, wanted: int, cutoff: str) -> list[Paper]:
        """Return the first ``wanted`` distinct papers of a listing that are not later than the cut-off."""
        if wanted < 1:
            return []
        # Within a cut-off a page may lose most of its papers, so a larger one is asked for.
        size = min(max(wanted, _FILTERED_PAGE) if cutoff else wanted, _LARGEST_PAGE if inside else _LARGEST_SEARCH)
        found: dict[str, Paper] = {}
        offset = 0
        for _ in range(_MOST_PAGES):
            page = {**params, "fields": FIELDS, "offset": str(offset), "limit": str(size)}
            reply = await self._patient().get(path, page)
            if reply.status == 404:
                break
            papers, following = read_page(reply.body, inside)
            for paper in papers:
                if earliest(paper.date) <= last_allowed(cutoff):
                    found.setdefault(paper.id, paper)
            if len(found) >= wanted or following is None or following <= offset:
                break
            offset = following
        return list(found.values())[:wanted]

    async def _paper(self, paper_id: str) -> Paper | None:
        reply = await self._patient().get(f"/paper/{path_of(paper_key(paper_id))}", {"fields": FIELDS})
        return None if reply.status == 404 else read_paper(reply.body)

    def _patient(self) -> PatientClient:
        """Return the client of this process; called in the loop's own thread only."""
        return self._client.get(
            lambda: PatientClient(self.base_url, self._patience, self._api_key_env, self._recordings)
        )


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
