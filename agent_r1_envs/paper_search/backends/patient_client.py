"""An asynchronous HTTP client that is patient with a service and easy on it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import httpx

from agent_r1_envs.paper_search.backends.recordings import Recordings, Reply

_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_FINAL: Final = frozenset({200, 404})
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class ServiceError(RuntimeError):
    """The service failed for good; the message names what happened, never a header."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How a client treats a service.

    Attributes:
        connections: Most requests at a time.
        requests_per_second: Most requests a second; 0 for no limit.
        timeout: Seconds that a whole reply may take.
        retries: How often a request is repeated after the first failure.
        backoff: Seconds that the first pause lasts at most; each further one may be twice as long.
        longest_pause: Seconds; a longer ``Retry-After`` is cut to it.
    """

    connections: int = 4
    requests_per_second: float = 0.0
    timeout: float = 20.0
    retries: int = 5
    backoff: float = 1.0
    longest_pause: float = 60.0

    def __post_init__(self) -> None:
        if self.connections < 1 or self.retries < 0 or self.timeout <= 0:
            raise ValueError(f"expected connections >= 1, retries >= 0 and timeout > 0, got {self}")
        if min(self.requests_per_second, self.backoff, self.longest_pause) < 0:
            raise ValueError(f"expected rates and pauses of at least 0, got {self}")


@dataclass(slots=True)
class Traffic:
    """What a client has done so far.

    Attributes:
        requests: Requests that were sent, repeated ones included.
        retries: How many of them were repetitions.
        replayed: Replies that came from recordings.
        failures: Requests that failed for good.
    """

    requests: int = 0
    retries: int = 0
    replayed: int = 0
    failures: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


class PatientClient:
    """Gets JSON from one service; all methods run in one event loop.

    Failed connections, time-outs, replies that say "later" (408, 425, 429, 5xx) and bodies that are no JSON object are
    tried again, after pauses drawn at random and about twice as long each time. A ``Retry-After``, in seconds or as a
    date, is obeyed, and a 429 holds back all requests, not its own only.

    Args:
        base_url: Address that paths are added to.
        patience: Limits and pauses.
        key_variable: The environment variable that holds a key, which is sent as ``x-api-key`` and kept nowhere else.
        recordings: Where replies are kept; None for nowhere.
    """

    def __init__(self, base_url: str, patience: Patience, key_variable: str, recordings: Recordings | None) -> None:
        self._base = base_url.rstrip("/")
        self._patience, self._key_variable, self._recordings = patience, key_variable, recordings
        self.traffic = Traffic()
        # A proxy of the environment is for the outside world, not for a service on this machine.
        proxied = urlsplit(base_url).hostname not in _LOOPBACK
        limits = httpx.Limits(max_connections=patience.connections)
        self._client = httpx.AsyncClient(timeout=patience.timeout, limits=limits, trust_env=proxied)
        self._slots = asyncio.Semaphore(patience.connections)
        self._next_start = 0.0  # no request begins before this time
        self._random = random.Random()

    async def get(self, path: str, params: Mapping[str, str]) -> Reply:
        """Return the reply to a request, from the recordings or the service.

        Raises:
            ServiceError: If it fails for good.
        """
        kept = self._recordings.get(path, params) if self._recordings else None
        if kept is not None:
            self.traffic.replayed += 1
            return kept
        try:
            if self._recordings and self._recordings.offline:
                raise ServiceError(f"{path} with {dict(params)} was never recorded")
            reply = await self._ask(path, params)
        except ServiceError:
            self.traffic.failures += 1
            raise
        if self._recordings:
            self._recordings.put(path, params, reply)
        return reply

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, path: str, params: Mapping[str, str]) -> Reply:
        problem = ""
        for attempt in range(self._patience.retries + 1):
            if attempt:
                self.traffic.retries += 1
            async with self._slots:
                await self._turn()
                self.traffic.requests += 1
                outcome = await self._once(path, params)
            if isinstance(outcome, Reply):
                return outcome
            problem, asked = outcome
            if attempt < self._patience.retries:
                await self._rest(attempt, asked, hold_all=problem == "HTTP 429")
        raise ServiceError(f"{path} failed {self._patience.retries + 1} times, last with {problem}")

    async def _once(self, path: str, params: Mapping[str, str]) -> Reply | tuple[str, float]:
        """Return a final reply, or what went wrong for now and the pause that the service asks for."""
        try:
            async with asyncio.timeout(self._patience.timeout):
                response = await self._client.get(self._base + path, params=dict(params), headers=self._headers())
        except TimeoutError:
            return f"no reply within {self._patience.timeout:g} seconds", 0.0
        except httpx.RequestError as error:
            return type(error).__name__, 0.0
        if response.status_code in _TRANSIENT:
            return f"HTTP {response.status_code}", retry_after(response.headers.get("retry-after", ""))
        if response.status_code not in _FINAL:
            raise ServiceError(f"{path} was refused: HTTP {response.status_code}: {response.text[:200]!r}")
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            if response.status_code == 404:
                return Reply(404, {})
            return "a body that is no JSON object", 0.0
        return Reply(response.status_code, body)

    async def _turn(self) -> None:
        """Wait until a request may begin."""
        while (wait := self._next_start - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        if self._patience.requests_per_second:
            self._next_start = time.monotonic() + 1 / self._patience.requests_per_second

    async def _rest(self, attempt: int, asked: float, hold_all: bool) -> None:
        own = self._patience.backoff * 2**attempt * self._random.uniform(0.5, 1.0)
        pause = min(max(own, asked), self._patience.longest_pause)
        if hold_all:
            self._next_start = max(self._next_start, time.monotonic() + pause)
        await asyncio.sleep(pause)

    def _headers(self) -> dict[str, str]:
        key = os.environ.get(self._key_variable, "")
        return {"x-api-key": key} if key else {}


def retry_after(value: str) -> float:
    """Return the seconds that a ``Retry-After`` asks for, 0 for none that can be read.

    >>> retry_after("2"), retry_after("0.5"), retry_after("soon")
    (2.0, 0.5, 0.0)
    """
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return max(seconds, 0.0) if seconds < float("inf") else 0.0
