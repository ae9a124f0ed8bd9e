"""Client of a retrieval server that speaks Search-R1's ``/retrieve`` protocol."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from agent_r1_envs.retrieval.contents import read_document
from agent_r1_envs.retrieval.types import Hit, check_k
from agent_r1_envs.services.endpoint import EndpointError, JsonEndpoint


class RetrievalError(RuntimeError):
    """The retrieval server could not be used; the message names its address, what happened and a way out."""


class HttpRetriever:
    r"""Search through ``POST /retrieve``.

    The request is ``{"queries": [...], "topk": k, "return_scores": true}``; the reply holds one list per query,
    ``{"result": [[{"document": {"contents": "\"title\"\ntext"}, "score": 0.5}]]}``. Failures that pass are tried again
    as :class:`~agent_r1_envs.services.endpoint.JsonEndpoint` says.

    Args:
        url: Address of the endpoint; an address without a path gets ``/retrieve``.
        timeout: Seconds to wait for a connection and for each part of a reply.
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
        if batch_size < 1:
            raise ValueError(f"expected batch_size >= 1, got {batch_size}")
        self.endpoint = JsonEndpoint(
            url, path="/retrieve", timeout=timeout, retries=retries, backoff=backoff, headers=headers
        )
        self.batch_size = batch_size

    def __repr__(self) -> str:
        return f"HttpRetriever({self.endpoint.address!r})"

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
            hits.extend(self._ask(list(queries[begin : begin + self.batch_size]), k))
        return hits

    def close(self) -> None:
        """Close the connections; the next search opens new ones."""
        self.endpoint.close()

    def _ask(self, queries: list[str], k: int) -> list[list[Hit]]:
        try:
            reply = self.endpoint.post({"queries": queries, "topk": k, "return_scores": True})
        except EndpointError as error:
            raise RetrievalError(
                f"{error}. Start a retrieval server there, or name another one in "
                'retriever={"url": ...}; a larger timeout= helps when it is only slow'
            ) from error
        try:
            result = reply["result"]
            if len(result) != len(queries):
                raise ValueError(f"expected {len(queries)} lists of documents, got {len(result)}")
            return [[_hit(entry) for entry in entries[:k]] for entries in result]
        except (TypeError, KeyError, ValueError) as error:
            raise RetrievalError(
                f"{self.endpoint.address} answered in another form than the /retrieve protocol: {error!r}; expected "
                f'{{"result": [[{{"document": {{"contents": ..}}, "score": ..}}]]}}, got {str(reply)[:200]!r}'
            ) from error


def _hit(entry: Any) -> Hit:
    document = entry.get("document", entry) if isinstance(entry, dict) else entry
    score = entry.get("score", 0.0) if isinstance(entry, dict) else 0.0
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"expected a finite number as score, got {score!r}")
    return Hit(read_document(document), float(score))
