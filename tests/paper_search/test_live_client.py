"""The client of the live service: recorded replies of the real one, and a local one with faults."""

import asyncio
import copy
import json
import logging
import pickle
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import gymnasium
import httpx
import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent_r1_envs.paper_search.backends import Expand, Found, Limits, Search, SemanticScholarBackend
from agent_r1_envs.paper_search.backends.patient_client import ServiceError
from agent_r1_envs.paper_search.backends.semantic_scholar import read_paper
from agent_r1_envs.paper_search.embedded import embedded_backend
from agent_r1_envs.paper_search.env import PaperSearchEnv
from agent_r1_envs.paper_search.service.app import PREFIX, make_app
from agent_r1_envs.services.retry import retry_after
from agent_r1_trainer.bench.agents import RandomAgent
from tests.data import real_data
from tests.helpers.paper_service import FAULTS, Faulty, serving
from tests.helpers.papers import RECORDS, small_backend

A, B, C, D, P5, LATER = (record.paper.id for record in RECORDS)
LIMITS = Limits()
KEY = "sk-very-secret-key"
LOSING = FAULTS[:8]


def client(url: str, **kwargs: Any) -> SemanticScholarBackend:
    return SemanticScholarBackend(url, **{"timeout": 5.0, "backoff": 0.002, "retries": 6, **kwargs})


def recorded() -> dict[str, Any]:
    """Return the recorded replies of the real service, by path and offset."""
    folder = real_data("paper_search")
    replies = {}
    for name in ("s2_api_test_search_paper.yaml", "s2_api_test_get_paper_references.yaml"):
        for interaction in yaml.safe_load((folder / name).read_text(encoding="utf-8"))["interactions"]:
            address = httpx.URL(interaction["request"]["uri"])
            name = f"{address.path.removeprefix(PREFIX)} {address.params['offset']}"
            replies[name] = json.loads(interaction["response"]["body"]["string"])
    paper = json.loads((folder / "s2_api_paper_with_refs.json").read_text(encoding="utf-8"))
    name = f"/paper/{paper['paperId']}"
    replies[f"{name} 0"] = {key: value for key, value in paper.items() if key not in ("references", "citations")}
    replies[f"{name}/references 0"] = {"offset": 0, "data": [{"citedPaper": p} for p in paper["references"]]}
    replies[f"{name}/citations 0"] = {"offset": 0, "data": [{"citingPaper": p} for p in paper["citations"]]}
    return replies


def replaying(replies: dict[str, Any]) -> Starlette:
    async def reply(request: Request) -> Response:
        offset = request.query_params.get("offset", "0")
        body = replies.get(f"{request.url.path.removeprefix(PREFIX)} {offset}")
        return JSONResponse(body or {"error": "not recorded"}, 200 if body else 404)

    return Starlette(routes=[Route("/{path:path}", reply)])


def test_recorded_replies_of_the_real_service(tmp_path: Path) -> None:
    replies = recorded()
    turing = next(name for name in replies if len(name.split("/")[-1]) == 42).split("/")[-1][:40]
    lookups = [Search("turing"), Expand("10.2139/ssrn.2250500"), Expand(turing)]
    limits = Limits(search=100, citations=2000)
    with serving(replaying(replies)) as url:
        backend = client(url, recordings=str(tmp_path))
        search, references, both = backend.look_up(lookups, limits)
        paper = backend.paper(turing)
        nothing = backend.look_up([Expand("unknown")], limits)
        backend.close()
    titles = [p.title for p in search.papers]
    assert len(titles) == 100 and titles[4] == "Neural Turing Machines" and "\u2013" in titles[1]
    pages = [replies[f"/paper/10.2139/ssrn.2250500/references {offset}"]["data"] for offset in (0, 50)]
    named = [entry["citedPaper"]["paperId"] for page in pages for entry in page if entry["citedPaper"]["paperId"]]
    assert [len(page) for page in pages] == [50, 17]
    assert [p.id for p in references.papers] == list(dict.fromkeys(named))
    assert references.papers[1].id == "0109da9aff1014c55e95e3a59f9936b7462486f7"
    assert paper is not None and (paper.title, paper.date) == ("Computing Machinery and Intelligence", "19501001")
    entries = [e["citingPaper"] for e in replies[f"/paper/{turing}/citations 0"]["data"]]
    entries += [e["citedPaper"] for e in replies[f"/paper/{turing}/references 0"]["data"]]
    expected = dict.fromkeys(p.id for entry in entries if (p := read_paper(entry)))
    assert [p.id for p in both.papers] == list(expected) and 900 < len(expected) < len(entries) == 1014
    assert any(p.abstract == "" for p in both.papers) and any(len(p.id) == 10 and p.id[4] == "." for p in both.papers)
    assert nothing == [Found()]
    # Everything again, offline.
    offline = client("http://127.0.0.1:9/graph/v1", recordings=str(tmp_path), mode="replay", retries=0)
    assert offline.look_up(lookups, limits) == [search, references, both] and offline.paper(paper.id) == paper
    assert offline.traffic.requests == 0 and offline.traffic.replayed > 4
    [missing] = offline.look_up([Search("never asked")], limits)
    assert "was never recorded" in missing.error and offline.traffic.failures == 1
    offline.close()


def test_the_client_equals_the_corpus_behind_the_service() -> None:
    local = embedded_backend()
    with serving(make_app(local.corpus)) as url:
        backend = client(url)
        for task in list(PaperSearchEnv("test").tasks)[:12]:
            lookups = [Search(task.question), Search(task.titles[0]), Expand(task.answers[-1]), Expand("P00100")]
            for cutoff in ("", task.cutoff):
                assert backend.look_up(lookups, LIMITS, cutoff) == local.look_up(lookups, LIMITS, cutoff)
        assert backend.traffic.retries == backend.traffic.failures == 0
        backend.close()


def test_pages_are_read_on_while_a_cutoff_leaves_too_few() -> None:
    records = [f"P{n:05d}" for n in range(100)]
    local = embedded_backend()
    famous = max(records, key=lambda key: len(local.corpus.graph.citing(int(key[1:]))))
    everyone = len(local.corpus.graph.citing(int(famous[1:])))
    assert everyone > 100
    with serving(make_app(local.corpus)) as url:
        backend = client(url)
        limits = Limits(citations=10**4, references=0)
        for cutoff in ("", "20120101"):
            [far] = backend.look_up([Expand(famous)], Limits(citations=everyone - 1, references=0), cutoff)
            assert far == local.look_up([Expand(famous)], Limits(citations=everyone - 1, references=0), cutoff)[0]
        assert backend.look_up([Expand(famous)], limits) == local.look_up([Expand(famous)], limits)
        backend.close()


@pytest.mark.parametrize("fault", LOSING)
def test_faults_that_pass_are_survived(fault: str) -> None:
    app = Faulty(make_app(small_backend().corpus), lambda n: fault if n < 3 else "")
    with serving(app) as url:
        backend = client(url, timeout=0.15 if fault == "slow" else 5.0)
        found = backend.look_up([Search("sand"), Expand(A)], LIMITS)
        assert found == small_backend().look_up([Search("sand"), Expand(A)], LIMITS)
        assert backend.traffic.to_json() == {"requests": 6, "retries": 3, "replayed": 0, "failures": 0}
        backend.close()


@pytest.mark.parametrize("fault", LOSING)
def test_faults_that_stay_are_answers_and_name_no_key(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("S2_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    app = Faulty(make_app(small_backend().corpus), lambda n: fault)
    with serving(app) as url:
        backend = client(url, retries=1, timeout=0.1 if fault == "slow" else 5.0)
        search, expand = backend.look_up([Search("sand"), Expand(A)], LIMITS)
        assert "failed 2 times, last with" in search.error and expand.error and not search.papers
        with pytest.raises(ServiceError) as raised:
            backend.paper(A)
        backend.close()
    assert all(headers["x-api-key"] == KEY for _, _, headers, _ in app.requests)
    assert KEY not in search.error + expand.error + str(raised.value) + caplog.text + repr(backend)


def test_spoilt_contents_are_read_as_far_as_they_go() -> None:
    for fault, expected in (
        ("null abstracts", [A, B, D, LATER]),
        ("no ids", None),
        ("duplicates", [A, B, D, LATER]),
    ):
        app = Faulty(make_app(small_backend().corpus), lambda n, fault=fault: fault)
        with serving(app) as url:
            backend = client(url)
            [found] = backend.look_up([Search("sand")], LIMITS)
            assert not found.error
            keys = [paper.id for paper in found.papers]
            assert sorted(keys) == expected if expected else len(keys) == 2
            if fault == "null abstracts":
                assert all(paper.abstract == "" for paper in found.papers)
            backend.close()


def test_a_query_of_hyphens_finds_nothing_and_hyphens_are_spaces() -> None:
    app = Faulty(make_app(small_backend().corpus), lambda n: "")
    with serving(app) as url:
        backend = client(url)
        found = backend.look_up([Search(" - -"), Search("well-washed gravel")], LIMITS)
        backend.close()
    assert found[0] == Found() and [paper.id for paper in found[1].papers] == [C]
    assert [parse_qs(query)["query"] for _, query, _, _ in app.requests] == [["well washed gravel"]]


def test_refusals_are_final() -> None:
    async def refuse(request: Request) -> Response:
        return JSONResponse({"message": "Forbidden"}, 403)

    with serving(Starlette(routes=[Route("/{path:path}", refuse)])) as url:
        backend = client(url)
        [found] = backend.look_up([Search("sand")], LIMITS)
        assert "refused: HTTP 403" in found.error and backend.traffic.requests == 1
        backend.close()


@pytest.mark.parametrize(
    "body",
    [b"[]", b"null", b'{"data": null}', b'{"data": [null, 3, {"title": null}]}', b'{"next": "x"}', b'{"data": {}}'],
)
def test_odd_replies(body: bytes) -> None:
    async def odd(request: Request) -> Response:
        return Response(body, media_type="application/json")

    with serving(Starlette(routes=[Route("/{path:path}", odd)])) as url:
        backend = client(url, retries=0)
        [found] = backend.look_up([Search("sand")], LIMITS)
        assert found.papers == () and bool(found.error) == (not body.startswith(b"{"))
        backend.close()


def test_episodes_survive_a_service_with_faults() -> None:
    """Every third reply is lost or spoilt; figures are printed with -s."""
    rng = random.Random(0)
    plan = [rng.choice(FAULTS) if rng.random() < 1 / 3 else "" for _ in range(20_000)]
    app = Faulty(make_app(embedded_backend().corpus), lambda n: "" if plan[n] == "slow" and n % 4 else plan[n])
    agent = RandomAgent()
    lost, rewards = 0, []
    with serving(app) as url:
        service = client(url, timeout=0.4)
        env = gymnasium.make("AgentR1/PaperSearch-v0", split="test", backend=service, disable_env_checker=True)
        for episode in range(20):
            observation, info = env.reset(options={"task": episode})
            act = agent.begin(env, info, episode)
            done = False
            try:
                while not done:
                    expert = episode % 2 == 0
                    action = env.unwrapped.expert_action() if expert else act(observation, info)
                    observation, reward, terminated, truncated, info = env.step(action)
                    rewards.append(reward)
                    done = terminated or truncated
            except Exception:
                lost += 1
        traffic = service.traffic.to_json()
        service.close()
    print(f"\n20 episodes, {lost} lost; {traffic}")
    assert lost == 0 and max(rewards) > 0
    assert traffic["retries"] > 20 and traffic["failures"] == 0


def test_a_pause_that_is_asked_for_is_kept_by_all() -> None:
    times: list[float] = []

    async def busy_once(request: Request) -> Response:
        times.append(time.monotonic())
        if len(times) == 1:
            return Response("{}", 429, headers={"retry-after": "0.3"})
        return JSONResponse({"data": []})

    with serving(Starlette(routes=[Route("/{path:path}", busy_once)])) as url:
        backend = client(url, connections=1)
        backend.look_up([Search("a"), Search("b"), Search("c")], LIMITS)
        backend.close()
    assert len(times) == 4 and times[1] - times[0] >= 0.29


def test_retry_after_is_a_number_or_a_date() -> None:
    from email.utils import formatdate

    assert retry_after("3") == 3.0 and retry_after("") == retry_after("soon") == retry_after("-4") == 0.0
    assert retry_after("inf") == retry_after("nan") == 0.0
    assert 4.0 < retry_after(formatdate(time.time() + 6, usegmt=True)) < 7.0
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


def test_connections_and_rate_are_limited() -> None:
    now = most = 0
    starts: list[float] = []

    async def count(request: Request) -> Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        starts.append(time.monotonic())
        await asyncio.sleep(0.02)
        now -= 1
        return JSONResponse({"data": []})

    queries = [Search(f"q{n}") for n in range(9)]
    with serving(Starlette(routes=[Route("/{path:path}", count)])) as url:
        backend = client(url, connections=3)
        backend.look_up(queries, LIMITS)
        backend.close()
        assert most == 3
        starts.clear()
        slow = client(url, connections=9, requests_per_second=50)
        slow.look_up(queries, LIMITS)
        slow.close()
    assert starts[-1] - starts[0] >= 8 / 50 * 0.9


def test_recordings_hold_no_key_and_can_be_read_after_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S2_API_KEY", KEY)
    app = Faulty(make_app(small_backend().corpus), lambda n: "")
    with serving(app) as url:
        backend = client(url, recordings=str(tmp_path))
        first = backend.look_up([Search("sand"), Expand("unknown")], LIMITS)
        count = len(app.requests)
        assert backend.look_up([Search("sand"), Expand("unknown")], LIMITS) == first and len(app.requests) == count
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert len(files) == count and not any(KEY in file.read_text(encoding="utf-8") for file in files)
        files[0].write_text('{"status": 2', encoding="utf-8")
        assert backend.look_up([Search("sand"), Expand("unknown")], LIMITS) == first and len(app.requests) == count + 1
        anew = client(url, recordings=str(tmp_path), mode="record")
        anew.look_up([Search("sand")], LIMITS)
        assert len(app.requests) == count + 2
        backend.close()
        anew.close()


def test_it_can_be_pickled_copied_and_used_from_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setenv("S2_API_KEY", KEY)
    with serving(make_app(small_backend().corpus)) as url:
        backend = client(url)
        expected = backend.look_up([Search("sand")], LIMITS)
        data = pickle.dumps(backend)
        assert KEY.encode() not in data and copy.deepcopy(backend) is backend
        again = pickle.loads(data)
        assert again.look_up([Search("sand")], LIMITS) == expected
        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(lambda _: backend.look_up([Search("sand")], LIMITS), range(40)))
        assert results == [expected] * 40
        backend.close()
        assert backend.look_up([Search("sand")], LIMITS) == expected, "closing is not the end"
        backend.close()
        again.close()


@pytest.mark.parametrize(
    "arguments",
    [{"base_url": "api"}, {"connections": 0}, {"retries": -1}, {"timeout": 0}, {"mode": "replay"}, {"backoff": -1}]
    + [{"recordings": "x", "mode": "later"}],
)
def test_bad_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected|mode"):
        SemanticScholarBackend(**arguments)


def test_a_spec_makes_one_client_a_process() -> None:
    spec: dict[str, Any] = {"name": "semantic_scholar", "base_url": "http://127.0.0.1:9/graph/v1", "retries": 0}
    one, two = (PaperSearchEnv("test", backend=spec) for _ in range(2))
    assert one.backend is two.backend
    make: Callable[..., Any] = gymnasium.make
    env = make("AgentR1/PaperSearch-v0", backend=spec)
    assert json.loads(env.spec.to_json())["kwargs"]["backend"] == spec
    env.reset(options={"task": 0})
    _, reward, *_, info = env.step("search[a]")
    assert reward == 0.0 and not info["calls"][0]["ok"] and info["reward_info"]["service_failures"] == 1.0
