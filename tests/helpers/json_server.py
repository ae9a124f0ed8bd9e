"""A real JSON server on this machine, which misbehaves on demand."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, bytes]
"""Status and content; status 0 hangs up without an answer."""


class JsonServer(ThreadingHTTPServer):
    """Answers every POST with ``answer(body)``, after the replies in ``script`` have been given.

    Attributes:
        script: Replies to give first.
        status: The status of what ``answer`` returns.
        requests: What was posted, with the path under ``"path"``.
        seen_headers: The headers of every request.
        headers: Sent with every reply.
    """

    daemon_threads = True

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.script: list[Callable[[], Reply]] = []
        self.status: Callable[[dict[str, Any]], int] = lambda body: 200
        self.requests: list[dict[str, Any]] = []
        self.seen_headers: list[dict[str, str]] = []
        self.headers: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: JsonServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append({"path": self.path, **body})
        self.server.seen_headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.server.script:
            status, content = self.server.script.pop(0)()
        else:
            status, content = self.server.status(body), json.dumps(self.server.answer(body)).encode()
        if status == 0:
            self.close_connection = True
            return
        try:
            self._send(status, content)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has given up, as some tests want

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(server: JsonServer) -> Iterator[JsonServer]:
    """Serve for the length of the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
