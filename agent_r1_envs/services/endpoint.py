"""A JSON service behind an address: one POST at a time, patient with failures that pass."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx

from agent_r1_envs.services.per_process import PerProcess
from agent_r1_envs.services.retry import PassingFailure, RetryPolicy, excerpt, read_json
from agent_r1_envs.services.secrecy import hide, public_address, query_secrets

__all__ = ["EndpointError", "JsonEndpoint", "chat_address", "trusts_environment"]

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_MESSAGE = 500


class EndpointError(RuntimeError):
    """A service could not be used; the message names its address and what happened, never a key.

    Attributes:
        status: The status of a refusal, 0 where there was no reply or none in the end.
        body: The JSON of a refusal, None where there is none.
    """

    def __init__(self, message: str, status: int = 0, body: Any = None) -> None:
        super().__init__(message)
        self.status, self.body = status, body


class JsonEndpoint:
    """Posts JSON to one address and returns the JSON of the reply.

    Failed connections, time-outs, replies that say "later" (408, 409, 425, 429, 5xx) and replies of success that are no
    JSON are tried again after the pauses of :class:`~agent_r1_envs.services.retry.RetryPolicy`; a ``Retry-After`` is
    obeyed. Other failures are final.

    Safe to share between threads, to pickle, and to use after a fork: every process opens its own connections.

    Args:
        url: The address. A name and password in it are sent as basic authorisation and shown nowhere.
        path: What an address without a path gets.
        timeout: Seconds to wait for a connection and for each part of a reply.
        retries: How often a request is repeated after the first failure.
        backoff: Seconds that the first pause lasts at most.
        headers: Sent with every request.
        key_env: The environment variable that holds a key. It is sent as a bearer token if it is set, read anew for
            each request, and kept nowhere: not in pickles, errors or logs.

    Raises:
        ValueError: An argument is out of range, or ``url`` is no http(s) address.
    """

    def __init__(
        self,
        url: str,
        *,
        path: str = "",
        timeout: float = 30.0,
        retries: int = 4,
        backoff: float = 0.5,
        headers: dict[str, str] | None = None,
        key_env: str = "",
    ) -> None:
        if not _is_address(url):
            raise ValueError(f"expected an address like http://host:port/path, got {public_address(str(url))!r}")
        if not timeout > 0:
            raise ValueError(f"expected timeout > 0, got {timeout}")
        parts = httpx.URL(url)
        self._login = (parts.username, parts.password) if parts.userinfo else None
        parts = parts.copy_with(userinfo=b"")
        self.url = str(parts.copy_with(path=path) if path and parts.path == "/" else parts)
        self.timeout, self.policy, self.key_env = timeout, RetryPolicy(retries, backoff), key_env
        self.headers = dict(headers or {})
        self._client: PerProcess[httpx.Client] = PerProcess()

    @property
    def address(self) -> str:
        """The address without what is secret in it, for messages."""
        return public_address(self.url)

    def post(self, body: dict[str, Any]) -> Any:
        """Post ``body`` and return the reply's JSON.

        Raises:
            EndpointError: The service cannot be reached, refuses, or answers with something other than JSON.
        """
        return self.ask(body)[0]

    def ask(self, body: dict[str, Any], check: Callable[[Any], None] | None = None) -> tuple[Any, int]:
        """Post ``body``; return the reply's JSON and the number of requests that it took.

        Args:
            body: JSON data; half a surrogate pair in it is replaced.
            check: Raises :class:`~agent_r1_envs.services.retry.PassingFailure` for JSON that says to try again.

        Raises:
            EndpointError: As for :meth:`post`.
        """
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        problem = ""
        for attempt in range(self.policy.retries + 1):
            try:
                answer = self._once(content)
                if check is not None:
                    check(answer)
                return answer, attempt + 1
            except PassingFailure as failure:
                problem, asked = str(failure), failure.asked
            if attempt < self.policy.retries:
                time.sleep(self.policy.pause(attempt, asked))
        raise self._error(f"failed {self.policy.retries + 1} times, last with {problem}")

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if client := self._client.take():
            client.close()

    def _once(self, content: bytes) -> Any:
        headers = {"content-type": "application/json", **self.headers}
        if key := self._key():
            headers["authorization"] = f"Bearer {key}"
        try:
            response = self._http().post(self.url, content=content, headers=headers)
        except httpx.RequestError as error:
            raise PassingFailure(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error
        body = read_json(response)
        if response.is_success:
            return body
        moved = f"it moved to {response.headers['location']!r}" if response.has_redirect_location else ""
        said = _message(body) or moved or excerpt(response)
        raise self._error(
            f"refused the request: HTTP {response.status_code}: {said}", response.status_code, body
        ) from None

    def _key(self) -> str:
        key = os.environ.get(self.key_env, "").strip() if self.key_env else ""
        if not (key.isascii() and key.isprintable()):
            raise EndpointError(f"{self.key_env} holds no key: a key is made of ASCII characters, without line breaks")
        return key

    def _error(self, message: str, status: int = 0, body: Any = None) -> EndpointError:
        # A service says the key back without the scheme before it: "Bearer" is a word of the header of its own.
        words = [word for value in self.headers.values() for word in value.split()]
        secrets = [self._key(), *(self._login or ()), *query_secrets(self.url), *words]
        return EndpointError(hide(f"{self.address} {message}", secrets), status, body)

    def _http(self) -> httpx.Client:
        return self._client.get(
            lambda: httpx.Client(timeout=self.timeout, auth=self._login, trust_env=trusts_environment(self.url))
        )


def trusts_environment(url: str) -> bool:
    """Tell whether the proxies of the environment are for this address: not for a service on this machine."""
    return urlsplit(url).hostname not in _LOOPBACK


def chat_address(url: str) -> str:
    """Return the address of chat completions at an OpenAI-compatible endpoint.

    >>> chat_address("http://127.0.0.1:8000/v1"), chat_address("http://host/v1/chat/completions?api-version=2")
    ('http://127.0.0.1:8000/v1/chat/completions', 'http://host/v1/chat/completions?api-version=2')

    Raises:
        ValueError: It is no http(s) address.
    """
    if not _is_address(url):
        raise ValueError(f"expected an address like http://host:port/v1, got {public_address(str(url))!r}")
    parts = httpx.URL(url)
    path = parts.path.rstrip("/")
    return str(parts if path.endswith("/chat/completions") else parts.copy_with(path=f"{path}/chat/completions"))


def _is_address(url: str) -> bool:
    try:
        parts, port = httpx.URL(url), urlsplit(url).port  # httpx takes brackets that are not closed, and any port
    except (httpx.InvalidURL, TypeError, ValueError):
        return False
    return parts.scheme in ("http", "https") and bool(parts.host) and port != 0


def _message(body: Any) -> str:
    """Return what a refusal says, in the forms that services share; ``""`` if it has another one."""
    said = body
    for key in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(key):
            said = said[key]
    return repr(said[:_MESSAGE]) if isinstance(said, str) and said else ""
