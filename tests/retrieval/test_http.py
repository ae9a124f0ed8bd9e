"""The client against a real server on this machine, which misbehaves on demand."""

import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent_r1_envs.retrieval import HttpRetriever, OkapiRetriever, Passage, RetrievalError, Retriever, make_retriever
from agent_r1_envs.retrieval.contents import format_contents

PASSAGES = [Passage("a", "Lorin", "A town on the Vess."), Passage("b", "Vess", "A river."), Passage("c", "", "Bees.")]
Reply = tuple[int, bytes]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.index = OkapiRetriever(PASSAGES)
        self.requests: list[dict[str, Any]] = []
        self.script: list[Callable[[], Reply]] = []  # replies before the server behaves
        self.headers: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, body: dict[str, Any]) -> Reply:
        found = self.index.search_batch(body["queries"], body["topk"])
        result = [
            [
                {
                    "document": {"id": h.passage.id, "contents": format_contents(h.passage.title, h.passage.text)},
                    "score": h.score,
                }
                for h in hits
            ]
            for hits in found
        ]
        return 200, json.dumps({"result": result}).encode()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append({"path": self.path, **body})
        status, content = self.server.script.pop(0)() if self.server.script else self.server.answer(body)
        if status == 0:  # hang up without an answer
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def client(server: Server, **options: Any) -> HttpRetriever:
    return HttpRetriever(server.url, **{"timeout": 5.0, "backoff": 0.001, "retries": 3, **options})


def test_finds_what_the_index_behind_the_server_finds(server: Server) -> None:
    retriever = client(server)
    assert isinstance(retriever, Retriever)
    for query in ("town", "river Vess", "nothing", "Ünïcode \ud800"):
        assert retriever.search(query, 2) == server.index.search(query, 2)
    assert server.requests[0] == {"path": "/retrieve", "queries": ["town"], "topk": 2, "return_scores": True}
    retriever.close()


def test_batches_keep_their_order(server: Server) -> None:
    retriever = client(server, batch_size=2)
    queries = ["town", "river", "bees", "Vess", "town"]
    assert retriever.search_batch(queries, 3) == server.index.search_batch(queries, 3)
    assert [len(r["queries"]) for r in server.requests] == [2, 2, 1]
    assert retriever.search_batch([], 3) == []


@pytest.mark.parametrize("status", [500, 503, 429, 408, 0])
def test_passing_failures_are_tried_again(server: Server, status: int) -> None:
    server.script = [lambda: (status, b"busy")] * 3
    assert client(server).search("town", 1) == server.index.search("town", 1)
    assert len(server.requests) == 4


def test_a_lasting_failure_names_the_address_and_a_way_out(server: Server) -> None:
    server.script = [lambda: (500, b"out of memory")] * 9
    with pytest.raises(
        RetrievalError, match=r"127\.0\.0\.1:\d+/retrieve failed 4 times.*500.*out of memory.*Start a retrieval server"
    ):
        client(server).search("town", 1)
    assert len(server.requests) == 4


def test_a_refusal_is_final(server: Server) -> None:
    server.script = [lambda: (404, b"no such page")]
    with pytest.raises(RetrievalError, match="refused the request: HTTP 404"):
        client(server).search("town", 1)
    assert len(server.requests) == 1


def test_a_slow_server_times_out_and_may_recover(server: Server) -> None:
    def late() -> Reply:
        time.sleep(0.4)
        return 200, b"{}"

    server.script = [late]
    assert client(server, timeout=0.15).search("town", 1) == server.index.search("town", 1)
    server.script = [late]
    with pytest.raises(RetrievalError, match="failed 1 times, last with ReadTimeout"):
        client(server, timeout=0.15, retries=0).search("town", 1)


@pytest.mark.parametrize(
    "content",
    [
        b"<html>welcome</html>",
        b"\xff\xfe",
        b"[" * 100_000,
        b"null",
        b"[]",
        b'{"result": null}',
        b'{"result": []}',
        b'{"result": [[], []]}',
        b'{"result": [[3]]}',
        b'{"result": [[{"document": {"body": "x"}}]]}',
        b'{"result": [[{"document": {"contents": "x"}, "score": "high"}]]}',
        b'{"result": [[{"document": {"contents": "x"}, "score": NaN}]]}',
    ],
)
def test_garbage_is_explained(server: Server, content: bytes) -> None:
    server.script = [lambda: (200, content)]
    with pytest.raises(RetrievalError, match=r"127\.0\.0\.1:\d+/retrieve answered"):
        client(server).search("town", 1)


def test_other_shapes_of_an_entry_are_read(server: Server) -> None:
    server.script = [
        lambda: (200, b'{"result": [[{"contents": "\\"T\\"\\nx"}, {"document": {"title": "U", "text": "y"}}]]}')
    ]
    hits = client(server).search("town", 5)
    assert [(h.passage.title, h.passage.text, h.score) for h in hits] == [("T", "x", 0.0), ("U", "y", 0.0)]


def test_retry_after_is_obeyed(server: Server) -> None:
    server.headers = {"retry-after": "1"}
    server.script = [lambda: (429, b"")]
    begin = time.monotonic()
    client(server).search("town", 1)
    assert time.monotonic() - begin >= 1.0


def test_nobody_listens() -> None:
    with Server() as closed:
        url = closed.url
    with pytest.raises(RetrievalError, match="failed 2 times, last with ConnectError"):
        HttpRetriever(url, retries=1, backoff=0.001, timeout=1.0).search("town", 1)


def test_survives_pickling_and_is_made_from_json(server: Server) -> None:
    retriever = make_retriever({"url": server.url + "/retrieve", "backoff": 0.001})
    expected = retriever.search("town", 1)
    assert pickle.loads(pickle.dumps(retriever)).search("town", 1) == expected


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://host/x", "http://", "http://host:port/"])
def test_bad_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError):
        HttpRetriever(url)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"retries": -1}, {"backoff": -1}, {"batch_size": 0}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        HttpRetriever("http://127.0.0.1:1", **options)
