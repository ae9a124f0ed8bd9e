"""The client against a real server on this machine, which misbehaves on demand."""

import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agent_r1_envs.retrieval import (
    Hit,
    HttpRetriever,
    OkapiRetriever,
    Passage,
    RetrievalError,
    Retriever,
    make_retriever,
)
from tests.helpers.json_server import JsonServer, Reply, serving

PASSAGES = [Passage("a", "Lorin", "A town on the Vess."), Passage("b", "Vess", "A river."), Passage("c", "", "Bees.")]


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with serving(JsonServer(answer)) as running:
        yield running


INDEX = OkapiRetriever(PASSAGES)


def answer(body: dict[str, Any]) -> dict[str, Any]:
    return {"result": [[document(hit) for hit in hits] for hits in INDEX.search_batch(body["queries"], body["topk"])]}


def document(hit: Hit) -> dict[str, Any]:
    contents = f'"{hit.passage.title}"\n{hit.passage.text}'
    return {"document": {"id": hit.passage.id, "contents": contents}, "score": hit.score}


def client(server: JsonServer, **options: Any) -> HttpRetriever:
    return HttpRetriever(server.url, **{"timeout": 5.0, "backoff": 0.001, "retries": 3, **options})


def test_finds_what_the_index_behind_the_server_finds(server: JsonServer) -> None:
    retriever = client(server)
    assert isinstance(retriever, Retriever)
    for query in ("town", "river Vess", "nothing", "Ünïcode \ud800"):
        assert retriever.search(query, 2) == INDEX.search(query, 2)
    assert server.requests[0] == {"path": "/retrieve", "queries": ["town"], "topk": 2, "return_scores": True}
    retriever.close()


def test_batches_keep_their_order(server: JsonServer) -> None:
    retriever = client(server, batch_size=2)
    queries = ["town", "river", "bees", "Vess", "town"]
    assert retriever.search_batch(queries, 3) == INDEX.search_batch(queries, 3)
    assert [len(r["queries"]) for r in server.requests] == [2, 2, 1]
    assert retriever.search_batch([], 3) == []


@pytest.mark.parametrize("status", [500, 503, 429, 408, 0])
def test_passing_failures_are_tried_again(server: JsonServer, status: int) -> None:
    server.script = [lambda: (status, b"busy")] * 3
    assert client(server).search("town", 1) == INDEX.search("town", 1)
    assert len(server.requests) == 4


def test_a_lasting_failure_names_the_address_and_a_way_out(server: JsonServer) -> None:
    server.script = [lambda: (500, b"out of memory")] * 9
    with pytest.raises(
        RetrievalError, match=r"127\.0\.0\.1:\d+/retrieve failed 4 times.*500.*out of memory.*Start a retrieval server"
    ):
        client(server).search("town", 1)
    assert len(server.requests) == 4


def test_a_refusal_is_final(server: JsonServer) -> None:
    server.script = [lambda: (404, b"no such page")]
    with pytest.raises(RetrievalError, match="refused the request: HTTP 404"):
        client(server).search("town", 1)
    assert len(server.requests) == 1


def test_a_slow_server_times_out_and_may_recover(server: JsonServer) -> None:
    def late() -> Reply:
        time.sleep(0.4)
        return 200, b"{}"

    server.script = [late]
    assert client(server, timeout=0.15).search("town", 1) == INDEX.search("town", 1)
    server.script = [late]
    with pytest.raises(RetrievalError, match="failed 1 times, last with ReadTimeout"):
        client(server, timeout=0.15, retries=0).search("town", 1)


@pytest.mark.parametrize(
    "content",
    [
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
def test_garbage_is_explained(server: JsonServer, content: bytes) -> None:
    server.script = [lambda: (200, content)]
    with pytest.raises(RetrievalError, match=r"127\.0\.0\.1:\d+/retrieve answered"):
        client(server).search("town", 1)


def test_other_shapes_of_an_entry_are_read(server: JsonServer) -> None:
    server.script = [
        lambda: (200, b'{"result": [[{"contents": "\\"T\\"\\nx"}, {"document": {"title": "U", "text": "y"}}]]}')
    ]
    hits = client(server).search("town", 5)
    assert [(h.passage.title, h.passage.text, h.score) for h in hits] == [("T", "x", 0.0), ("U", "y", 0.0)]


def test_retry_after_is_obeyed(server: JsonServer) -> None:
    server.headers = {"retry-after": "1"}
    server.script = [lambda: (429, b"")]
    begin = time.monotonic()
    client(server).search("town", 1)
    assert time.monotonic() - begin >= 1.0


def test_nobody_listens() -> None:
    with serving(JsonServer(answer)) as closed:
        url = closed.url
    with pytest.raises(RetrievalError, match="failed 2 times, last with ConnectError"):
        HttpRetriever(url, retries=1, backoff=0.001, timeout=1.0).search("town", 1)


def test_survives_pickling_and_is_made_from_json(server: JsonServer) -> None:
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
