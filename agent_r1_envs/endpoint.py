"""A JSON service behind an address: one POST at a time, patient with failures that pass."""

from __future__ import annotations

import os
import random
import time
from typing import Any
from urllib.parse import urlsplit

import httpx

__all__ = ["EndpointError", "JsonEndpoint"]

_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_PAUSE = 30.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_EXCERPT = 200


class EndpointError(RuntimeError):
    """A service could not be used; the message names its address and what happened."""


class JsonEndpoint:
    """Posts JSON to one address and returns the JSON of the reply.

    Failed connections, time-outs and replies that say "later" (408, 425, 429, 5xx) are tried again, each time after
    about twice the pause, drawn at random so that many workers do not come back at the same moment; a ``Retry-After``
    in seconds is obeyed. Other failures are final.

    Safe to share between threads, to pickle, and to use after a fork: every process opens its own connections.

    Args:
        url: The address.
        timeout: Seconds to wait for a connection and for each part of a reply.
        retries: How often a request is repeated after the first failure.
        backoff: Seconds that the first pause lasts at most.
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
        headers: dict[str, str] | None = None,
    ) -> None:
        if not _is_address(url):
            raise ValueError(f"expected an address like http://host:port/path, got {url!r}")
        if timeout <= 0 or retries < 0 or backoff < 0:
            raise ValueError(
                f"expected timeout > 0, retries >= 0 and backoff >= 0, got {timeout}, {retries}, {backoff}"
            )
        self.url, self.timeout, self.retries, self.backoff = url, timeout, retries, backoff
        self.headers = dict(headers or {})
        self._client: tuple[int, httpx.Client] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def post(self, body: dict[str, Any]) -> Any:
        """Post ``body`` and return the reply's JSON.

        Raises:
            EndpointError: The service cannot be reached, refuses, or answers with something other than JSON.
        """
        for attempt in range(self.retries + 1):
            pause = self.backoff * 2**attempt * random.uniform(0.5, 1.0)
            try:
                response = self._http().post(self.url, json=body)
            except httpx.RequestError as error:
                problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                if response.is_success:
                    return self._json(response)
                problem = f"HTTP {response.status_code}: {response.text[:_EXCERPT]!r}"
                if response.status_code not in _TRANSIENT:
                    raise EndpointError(f"{self.url} refused the request: {problem}")
                pause = max(pause, _retry_after(response))
            if attempt < self.retries:
                time.sleep(min(pause, _LONGEST_PAUSE))
        raise EndpointError(f"{self.url} failed {self.retries + 1} times, last with {problem}")

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._client is not None and self._client[0] == os.getpid():
            self._client[1].close()
        self._client = None

    def _http(self) -> httpx.Client:
        if self._client is None or self._client[0] != os.getpid():  # connections must not be shared across a fork
            # A proxy of the environment is for the outside world, not for a service on this machine.
            proxied = urlsplit(self.url).hostname not in _LOOPBACK
            client = httpx.Client(timeout=self.timeout, headers=self.headers, trust_env=proxied)
            self._client = (os.getpid(), client)
        return self._client[1]

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise EndpointError(
                f"{self.url} answered with something other than JSON ({error}): {response.text[:_EXCERPT]!r}"
            ) from error


def _is_address(url: str) -> bool:
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        return False
    return parts.scheme in ("http", "https") and bool(parts.host)


def _retry_after(response: httpx.Response) -> float:
    asked = response.headers.get("retry-after", "")
    return float(asked) if asked.isascii() and asked.isdigit() else 0.0  # a date: the usual pause will do
