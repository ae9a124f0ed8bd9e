"""An asynchronous HTTP client that is patient with a service and easy on it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

import httpx

from agent_r1_envs.endpoint import trusts_environment
from agent_r1_envs.paper_search.backends.recordings import Recordings, Reply
from agent_r1_envs.retry import PassingFailure, RetryPolicy, excerpt, read_json
from agent_r1_envs.secrecy import hide

_FINAL: Final = frozenset({200, 404})
_TOO_MANY: Final = 429


class ServiceError(RuntimeError):
    """The service failed for good; the message names what happened, never a header."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How a client treats a service.

    Attributes:
        connections: Most requests at a time.
        requests_per_second: Most requests a second; 0 for no limit.
        timeout: Seconds that a whole reply may take.
        retry: When a request is sent again.
    """

    connections: int = 4
    requests_per_second: float = 0.0
    timeout: float = 20.0
    retry: RetryPolicy = RetryPolicy(retries=5, backoff=1.0)

    def __post_init__(self) -> None:
        if not (self.connections >= 1 and self.timeout > 0 and self.requests_per_second >= 0):
            raise ValueError(f"expected connections >= 1, timeout > 0 and requests_per_second >= 0, got {self}")


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

    Failed connections, time-outs, replies that say "later" (408, 409, 425, 429, 5xx) and bodies that are no JSON object
    are tried again after the pauses of :class:`~agent_r1_envs.retry.RetryPolicy`. A 429 holds back all requests, not
    its own only.

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
        limits = httpx.Limits(max_connections=patience.connections)
        self._client = httpx.AsyncClient(
            timeout=patience.timeout, limits=limits, trust_env=trusts_environment(base_url)
        )
        self._slots = asyncio.Semaphore(patience.connections)
        self._next_start = 0.0  # no request begins before this time

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
        policy = self._patience.retry
        problem = ""
        for attempt in range(policy.retries + 1):
            if attempt:
                self.traffic.retries += 1
            try:
                async with self._slots:
                    await self._turn()
                    self.traffic.requests += 1
                    return await self._once(path, params)
            except PassingFailure as failure:
                problem, status, pause = str(failure), failure.status, policy.pause(attempt, failure.asked)
            if attempt < policy.retries:
                if status == _TOO_MANY:
                    self._next_start = max(self._next_start, time.monotonic() + pause)
                await asyncio.sleep(pause)
        raise self._error(f"{path} failed {policy.retries + 1} times, last with {problem}")

    async def _once(self, path: str, params: Mapping[str, str]) -> Reply:
        """Return a final reply.

        Raises:
            PassingFailure: It went wrong for now.
            ServiceError: It is refused.
        """
        try:
            async with asyncio.timeout(self._patience.timeout):
                response = await self._client.get(self._base + path, params=dict(params), headers=self._headers())
        except TimeoutError:
            raise PassingFailure(f"no reply within {self._patience.timeout:g} seconds") from None
        except httpx.RequestError as error:
            raise PassingFailure(type(error).__name__) from None
        body = read_json(response)
        if response.status_code not in _FINAL:
            raise self._error(f"{path} was refused: HTTP {response.status_code}: {excerpt(response)}")
        if isinstance(body, dict):
            return Reply(response.status_code, body)
        if response.status_code != 200:
            return Reply(response.status_code, {})
        raise PassingFailure("a body that is no JSON object")

    async def _turn(self) -> None:
        """Wait until a request may begin."""
        while (wait := self._next_start - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        if self._patience.requests_per_second:
            self._next_start = time.monotonic() + 1 / self._patience.requests_per_second

    def _error(self, message: str) -> ServiceError:
        return ServiceError(hide(message, self._headers().values()))

    def _headers(self) -> dict[str, str]:
        key = os.environ.get(self._key_variable, "")
        return {"x-api-key": key} if key else {}
