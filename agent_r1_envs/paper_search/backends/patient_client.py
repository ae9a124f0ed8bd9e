"""An asynchronous HTTP client that is patient with a service and easy on it.

:class:`Recordings` keeps its replies on disk, so that a run can be repeated without the service, and
:class:`LoopThread` is the event loop that lets it stand behind a synchronous interface.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
import weakref
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

import httpx

from agent_r1_envs.files import expand, write_json
from agent_r1_envs.services.endpoint import trusts_environment
from agent_r1_envs.services.retry import PassingFailure, RetryPolicy, excerpt, read_json
from agent_r1_envs.services.secrecy import hide

T = TypeVar("T")
Mode = Literal["auto", "record", "replay"]
MODES: tuple[Mode, ...] = get_args(Mode)
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
    are tried again after the pauses of :class:`~agent_r1_envs.services.retry.RetryPolicy`. A 429 holds back all
    requests, not its own only.

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


@dataclass(frozen=True, slots=True)
class Reply:
    """A final reply of the service.

    Attributes:
        status: 200, or 404 for a paper that it does not have.
        body: The JSON.
    """

    status: int
    body: Any


class Recordings:
    """A folder with one file a request, named by a hash of path and parameters.

    Neither the address of the service nor any header is part of it, so a key cannot get there.

    Args:
        folder: The folder; made when the first reply is written.
        mode: ``"auto"`` asks the service for what is not there and writes it down, ``"record"`` asks for everything,
            ``"replay"`` asks for nothing.

    Raises:
        ValueError: If the mode is none.
    """

    def __init__(self, folder: str | os.PathLike[str], mode: Mode = "auto") -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
        self.folder, self.mode = expand(folder), mode

    @property
    def offline(self) -> bool:
        """Whether the service is never asked."""
        return self.mode == "replay"

    def get(self, path: str, params: Mapping[str, str]) -> Reply | None:
        """Return a reply that was written down; None if there is none, if it is damaged, or with ``"record"``."""
        if self.mode == "record":
            return None
        try:
            row = json.loads(self._file(path, params).read_text(encoding="utf-8"))
            return Reply(int(row["status"]), row["body"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, path: str, params: Mapping[str, str], reply: Reply) -> None:
        """Write a reply down, in one step, so that readers never see half of it."""
        file = self._file(path, params)
        file.parent.mkdir(parents=True, exist_ok=True)
        row = {"path": path, "params": dict(params), "status": reply.status, "body": reply.body}
        write_json(file, row, indent=None)

    def _file(self, path: str, params: Mapping[str, str]) -> Path:
        request = json.dumps([path, sorted(params.items())], ensure_ascii=True)
        name = hashlib.sha256(request.encode("ascii")).hexdigest()
        return self.folder / name[:2] / f"{name[:40]}.json"


class LoopThread:
    """Runs coroutines from any thread, also from one that has a running loop, and after a fork.

    The thread starts with the first coroutine and is a daemon; it ends with :meth:`close`, or when the object goes.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._lock = threading.Lock()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop of this process."""
        if self._process != os.getpid():  # the parent's lock may be held for ever, its thread is not here
            self._lock, self._loop, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="papers-client", daemon=True).start()
                weakref.finalize(self, _stop, self._loop, self._process)
            return self._loop

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result; an interrupt of the caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread; the next coroutine starts a new one."""
        if self._loop is not None and self._process == os.getpid():
            _stop(self._loop, self._process)
        self._loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, process: int) -> None:
    if process == os.getpid() and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
