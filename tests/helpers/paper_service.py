"""The local service of papers on 127.0.0.1, whose replies can be spoilt on purpose."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from agent_r1_envs.paper_search.service.app import PREFIX

Send = Callable[[dict[str, Any]], Awaitable[None]]
Fault = str
FAULTS = (
    "429",
    "429 after 0.02",
    "500",
    "503",
    "slow",
    "hang up",
    "truncated",
    "no json",
    "null abstracts",
    "no ids",
    "duplicates",
)
"""The first eight lose a reply, the others spoil what is in it."""


class Faulty:
    """An application around another one, which spoils the replies that ``plan`` says.

    Args:
        app: The application.
        plan: The fault of each request, by its number, or ``""``.
    """

    def __init__(self, app: Any, plan: Callable[[int], Fault]) -> None:
        self.app, self.plan = app, plan
        self.requests: list[tuple[str, str, dict[str, str], str]] = []
        """Path, query string, headers and fault of every request."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        fault = self.plan(len(self.requests))
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append((scope["path"], scope["query_string"].decode(), headers, fault))
        if fault == "slow":
            await asyncio.sleep(1.0)
        if fault[:3].isdigit():
            status, _, pause = fault.partition(" after ")
            extra = [(b"retry-after", pause.encode())] if pause else []
            await _reply(send, int(status), b'{"message": "later"}', extra)
            return
        if fault == "hang up":
            raise ConnectionResetError("as the test wants")
        status, body = await self._body(scope, receive)
        if status == 200:
            body = _spoil(body, fault)
        await _reply(send, status, body)

    async def _body(self, scope: dict[str, Any], receive: Any) -> tuple[int, bytes]:
        parts: list[bytes] = []
        status = 0

        async def keep(message: dict[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        await self.app(scope, receive, keep)
        return status, b"".join(parts)


def _spoil(body: bytes, fault: Fault) -> bytes:
    if fault == "truncated":
        return body[: len(body) // 2]
    if fault == "no json":
        return b"<html>Bad gateway</html>"
    reply = json.loads(body)
    entries = reply.get("data", [])
    papers = [next((entry[key] for key in ("citingPaper", "citedPaper") if key in entry), entry) for entry in entries]
    for number, paper in enumerate(papers):
        if fault == "null abstracts":
            paper["abstract"] = paper["externalIds"] = None
        elif fault == "no ids" and number % 2:
            paper["paperId"] = paper["externalIds"] = None
    if fault == "duplicates":
        reply["data"] = [entry for entry in entries for _ in range(2)]
    return json.dumps(reply).encode()


async def _reply(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve for the length of the block; yields the base address of the API."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off")
    socket = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        yield f"http://127.0.0.1:{socket.getsockname()[1]}{PREFIX}"
    finally:
        server.should_exit = True
        thread.join()
        socket.close()
