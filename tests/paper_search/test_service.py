"""The local service: addresses, parameters, errors."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agent_r1_envs.paper_search.service.app import make_app
from agent_r1_trainer.commands.serve import serve_papers
from tests.helpers.paper_service import serving
from tests.helpers.papers import RECORDS, small_backend

A, B, C, D, P5, LATER = (record.paper.id for record in RECORDS)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(make_app(small_backend().corpus)) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


def get(client: httpx.Client, path: str, **params: Any) -> dict[str, Any]:
    reply = client.get(path, params=params)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_search(client: httpx.Client) -> None:
    fields = "title,abstract,year,authors,externalIds,publicationDate"
    reply = get(client, "/paper/search", query="magnets", fields=fields)
    assert reply == {
        "total": 1,
        "offset": 0,
        "data": [
            {
                "paperId": "P5",
                "title": "Magnets",
                "abstract": "Iron is pulled out.",
                "year": 2020,
                "authors": [],
                "externalIds": {},
                "publicationDate": None,
            }
        ],
    }
    first = get(client, "/paper/search", query="sand", limit=3)
    assert first["total"] == 4 and first["next"] == 3 and set(first["data"][0]) == {"paperId", "title"}
    rest = get(client, "/paper/search", query="sand", limit=3, offset=3)
    assert "next" not in rest and {p["paperId"] for p in first["data"] + rest["data"]} == {A, B, D, LATER}


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"year": "2021"}, {LATER}),
        ({"year": "-2020"}, {A, B, D}),
        ({"year": "2021-"}, {LATER}),
        ({"year": "2019-2020"}, {A, B, D}),
        ({"minCitationCount": 2}, {A}),
        ({"minCitationCount": 1}, {A, B, D}),
    ],
)
def test_filters(client: httpx.Client, params: dict[str, Any], found: set[str]) -> None:
    reply = get(client, "/paper/search", query="sand", **params)
    assert {paper["paperId"] for paper in reply["data"]} == found and reply["total"] == len(found)


def test_papers_and_their_neighbours(client: httpx.Client) -> None:
    paper = get(client, f"/paper/ARXIV:{D}v2", fields="title,abstract,citationCount,referenceCount,externalIds")
    assert paper["abstract"] is None and (paper["citationCount"], paper["referenceCount"]) == (1, 3)
    assert paper["externalIds"] == {"ArXiv": D}
    cited = get(client, f"/paper/{D}/references", fields="title")["data"]
    assert [entry["citedPaper"]["paperId"] for entry in cited] == [A, B, C]
    citing = get(client, f"/paper/arXiv:{A}/citations", limit=2)
    assert [entry["citingPaper"]["paperId"] for entry in citing["data"]] == [B, C] and citing["next"] == 2


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/paper/search", 400, "query"),
        ("/paper/search?query=a&limit=101", 400, "limit must be from 1 to 100"),
        ("/paper/search?query=a&limit=x", 400, "limit must be a number"),
        ("/paper/search?query=a&offset=-1", 400, "offset must be"),
        ("/paper/search?query=a&year=soon", 400, "year must be"),
        ("/paper/search?query=a&fields=colour", 400, "unsupported fields: \\[colour\\]"),
        (f"/paper/{A}/citations?limit=1001", 400, "limit must be from 1 to 1000"),
        ("/paper/10.2139/ssrn.1", 404, "10.2139/ssrn.1 not found"),
        ("/paper/none/references", 404, "none not found"),
        ("/paper/%00%ff", 404, "not found"),
    ],
)
def test_errors(client: httpx.Client, path: str, status: int, message: str) -> None:
    import re

    reply = client.get(path)
    assert reply.status_code == status and re.search(message, reply.json()["error"])


def test_the_command_serves(tmp_path: Any) -> None:
    file = tmp_path / "papers.jsonl"
    file.write_text('{"id": "a", "title": "One"}\n', encoding="utf-8")
    code = "from agent_r1_trainer.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "papers", "--corpus", str(file), "--port", "0"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stderr is not None
        said = running.stderr.readline()
        address = next(word for word in said.split() if word.startswith("http")).rstrip(";")
        assert said.startswith("1 papers at http://127.0.0.1:")
        for _ in range(100):
            try:
                reply = httpx.get(f"{address}/paper/a", trust_env=False)
                break
            except httpx.ConnectError:
                continue
        assert reply.json() == {"paperId": "a", "title": "One"}
    finally:
        running.terminate()
        running.communicate(timeout=30)


def test_the_command_says_what_is_wrong(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve_papers(tmp_path / "none.jsonl", "127.0.0.1", 0) == 2
    assert "no such file" in capsys.readouterr().err
