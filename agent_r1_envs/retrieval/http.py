"""Client of a retrieval server that speaks Search-R1's ``/retrieve`` protocol."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from agent_r1_envs.retrieval.contents import read_document
from agent_r1_envs.retrieval.types import Hit, check_k

_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_PAUSE = 30.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class RetrievalError(RuntimeError):
    """The retrieval server could not be used; the message names its address, what happened and a way out."""


class HttpRetriever:
    r"""Search through ``POST /retrieve``.

    The request is ``{"queries": [...], "topk": k, "return_scores": true}``; the reply holds one list per query,
    ``{"result": [[{"document": {"contents": "\"title\"\ntext"}, "score": 0.5}]]}``. Failed connections, time-outs and
    replies that say "later" (408, 425, 429, 5xx) are tried again, each time after about twice the pause, drawn at
    random so that many workers do not come back at the same moment. Other failures are final.

    Safe to pickle and to use after a fork: every process opens its own connections.

    Args:
        url: Address of the endpoint; an address without a path gets ``/retrieve``.
        timeout: Seconds to wait for a connection and for each reply.
        retries: How often a request is repeated after the first failure.
        backoff: Seconds that the first pause lasts at most.
        batch_size: Most queries in one request.
        headers: Sent with every request, for example an authorisation.

    Raises:
        ValueError: An argument is out of range, or ``url`` is no http(s) address.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        backoff: float = 0.5,
        batch_size: int = 128,
        headers: dict[str, str] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _is_address(url):
            raise ValueError(f"url must look like http://host:port/retrieve, got {url!r}")
        if timeout <= 0 or retries < 0 or backoff < 0 or batch_size < 1:
            raise ValueError(f"{timeout=}, {retries=}, {backoff=}, {batch_size=}: expected > 0, >= 0, >= 0, >= 1")
        self.url = urlunsplit(parts._replace(path="/retrieve")) if parts.path in ("", "/") else url
        self.timeout, self.retries, self.backoff, self.batch_size = timeout, retries, backoff, batch_size
        self.headers = dict(headers or {})
        self._local = parts.hostname in _LOOPBACK
        self._client: tuple[int, httpx.Client] | None = None

    def __repr__(self) -> str:
        return f"HttpRetriever({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the server's best ``k`` passages for one query.

        Raises:
            RetrievalError: The server cannot be reached, fails, or answers in another form.
        """
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of every query, in order, with one request per ``batch_size`` queries.

        Raises:
            RetrievalError: As for :meth:`search`.
        """
        check_k(k)
        hits: list[list[Hit]] = []
        for begin in range(0, len(queries), self.batch_size):
            batch = [_encodable(query) for query in queries[begin : begin + self.batch_size]]
            hits.extend(self._read(self._post({"queries": batch, "topk": k, "return_scores": True}), len(batch), k))
        return hits

    def close(self) -> None:
        """Close the connections; the next search opens new ones."""
        if self._client is not None and self._client[0] == os.getpid():
            self._client[1].close()
        self._client = None

    def _http(self) -> httpx.Client:
        if self._client is None or self._client[0] != os.getpid():  # connections must not be shared across a fork
            # A proxy of the environment is for the outside world, not for a server on this machine.
            client = httpx.Client(timeout=self.timeout, headers=self.headers, trust_env=not self._local)
            self._client = (os.getpid(), client)
        return self._client[1]

    def _post(self, body: dict[str, Any]) -> Any:
        for attempt in range(self.retries + 1):
            pause = self.backoff * 2**attempt * random.uniform(0.5, 1.0)
            try:
                response = self._http().post(self.url, json=body)
            except httpx.RequestError as error:
                problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                if response.is_success:
                    return self._json(response)
                problem = f"HTTP {response.status_code}: {response.text[:200]!r}"
                if response.status_code not in _TRANSIENT:
                    raise RetrievalError(f"{self.url} refused the request: {problem}")
                pause = max(pause, _retry_after(response))
            if attempt < self.retries:
                time.sleep(min(pause, _LONGEST_PAUSE))
        raise RetrievalError(
            f"{self.url} failed {self.retries + 1} times, last with {problem}. Start the retrieval server there, or "
            'name another one in retriever={"url": ...}; a larger timeout= helps when it is only slow'
        )

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise RetrievalError(
                f"{self.url} answered with something other than JSON ({error}): {response.text[:200]!r}. "
                "Is this the address of a retrieval server?"
            ) from error

    def _read(self, reply: Any, queries: int, k: int) -> list[list[Hit]]:
        try:
            result = reply["result"]
            if len(result) != queries:
                raise ValueError(f"expected {queries} lists of documents, got {len(result)}")
            return [[_hit(entry) for entry in entries[:k]] for entries in result]
        except (TypeError, KeyError, ValueError) as error:
            raise RetrievalError(
                f"{self.url} answered in another form than the /retrieve protocol: {error!r}; "
                f'expected {{"result": [[{{"document": {{"contents": ..}}, "score": ..}}]]}}, got {str(reply)[:200]!r}'
            ) from error


def _hit(entry: Any) -> Hit:
    document = entry.get("document", entry) if isinstance(entry, dict) else entry
    score = entry.get("score", 0.0) if isinstance(entry, dict) else 0.0
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"expected a finite number as score, got {score!r}")
    return Hit(read_document(document), float(score))


def _is_address(url: str) -> bool:
    try:
        httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return True


def _encodable(query: str) -> str:
    """Replace lone surrogates, which JSON in UTF-8 cannot carry."""
    return query.encode("utf-8", "replace").decode("utf-8")


def _retry_after(response: httpx.Response) -> float:
    asked = response.headers.get("retry-after", "")
    return float(asked) if asked.isascii() and asked.isdigit() else 0.0  # a date: the usual pause will do
