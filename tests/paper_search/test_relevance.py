"""Selectors: known answers, and a classifier and a judge behind real servers that misbehave."""

import math
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.paper_search.env import PaperSearchEnv
from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery
from agent_r1_envs.paper_search.relevance import KnownAnswers, make_selector
from agent_r1_envs.paper_search.relevance.classifier import ClassifierSelector
from agent_r1_envs.paper_search.relevance.judge import JudgeSelector, read_verdict
from agent_r1_envs.paper_search.relevance.prompts import fill_prompt
from tests.helpers.json_server import JsonServer, serving
from tests.helpers.papers import small_backend

QUERY = PaperQuery("q", "papers about sieves for sand", ("a",), ("Sieves",))
PAPERS = [Paper(f"p{n}", f"Title {n}", f"abstract {n}") for n in range(5)]
SETTINGS = {"model": "m", "backoff": 0.001, "timeout": 2.0, "retries": 2}


def test_known_answers() -> None:
    graded = PaperQuery("q", "x", ("a",), grades=((("a", "b"), 0.25), (("b", "c"), 0.5)))
    papers = [Paper(name, "sieves") for name in "abcd"]
    assert KnownAnswers().judge(graded, papers) == [1.0, 0.5, 0.5, 0.0]
    near = [Paper("a", ""), Paper("x", "Sieves for SAND"), Paper("y", "Sieves", "papers"), Paper("z", "for")]
    assert KnownAnswers(0.4).judge(QUERY, near) == [1.0, pytest.approx(0.4 * 2 / 4), pytest.approx(0.2), 0.0]
    assert KnownAnswers(0.0).judge(QUERY, near) == [1.0, 0.0, 0.0, 0.0]


@given(st.text(), st.text(), st.text())
def test_texts_in_prompts_are_data(query: str, title: str, abstract: str) -> None:
    prompt = "<{query}|{title}|{abstract}|{query}> {other} {"
    filled = fill_prompt(prompt, PaperQuery("q", query, ()), Paper("p", title, abstract))
    assert filled == f"<{query}|{title}|{abstract}|{query}> {{other}} {{"


def classify(body: dict[str, Any]) -> dict[str, Any]:
    """Answer as vLLM does: the relevance of ``Title n`` is n / 10."""
    prompts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    numbers = [int(prompt.partition("Title: Title ")[2][:1]) for prompt in prompts]
    rows = [{"index": i, "label": "1", "probs": [n / 10, 1 - n / 10]} for i, n in enumerate(numbers)]
    return {"object": "list", "model": body["model"], "data": rows[::-1]}


@pytest.fixture
def classifier() -> Iterator[JsonServer]:
    with serving(JsonServer(classify)) as server:
        yield server


def test_the_classifier_protocol(classifier: JsonServer) -> None:
    selector = ClassifierSelector(classifier.url, batch_size=2, **SETTINGS)
    assert selector.judge(QUERY, PAPERS) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert [request["path"] for request in classifier.requests] == ["/classify"] * 3
    first, *_, last = classifier.requests
    assert first["activation"] is False and first["model"] == "m" and len(first["input"]) == 2
    assert isinstance(last["input"], str) and QUERY.question in last["input"] and "abstract 4" in last["input"]
    assert selector.judge(QUERY, PAPERS[::-1]) == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0])
    assert len(classifier.requests) == 3, "scores are remembered"
    selector.judge(PaperQuery("r", "another question", ()), PAPERS[:1])
    assert len(classifier.requests) == 4
    selector.cache.clear()
    selector.judge(QUERY, PAPERS[:1])
    assert len(classifier.requests) == 5


def test_the_cache_is_bounded(classifier: JsonServer) -> None:
    selector = ClassifierSelector(classifier.url, cache_size=2, **SETTINGS)
    selector.judge(QUERY, PAPERS[:3])
    selector.judge(QUERY, PAPERS[1:3])
    assert len(classifier.requests) == 1
    selector.judge(QUERY, PAPERS[:1])
    assert len(classifier.requests) == 2
    assert ClassifierSelector(classifier.url, cache_size=0, **SETTINGS).judge(QUERY, PAPERS[:1]) == [0.0]


BAD = [
    b"{}",
    b"[]",
    b'{"data": []}',
    b'{"data": [{"probs": []}, {"probs": [0.5]}]}',
    b'{"data": [{"probs": [7.5]}, {"probs": [-3]}]}',
    b'{"data": [{"probs": ["NaN"]}, {"probs": [0.1]}]}',
    b'{"data": [1, 2]}',
    b"<html>",
]


@pytest.mark.parametrize("content", BAD)
def test_a_classifier_that_answers_badly_judges_nothing(classifier: JsonServer, content: bytes) -> None:
    selector = ClassifierSelector(classifier.url, batch_size=2, **SETTINGS)
    tries = selector.endpoint.policy.retries + 1 if content == b"<html>" else 1  # a page in its place may pass
    classifier.script = [lambda: (200, content)] * tries
    assert selector.judge(QUERY, PAPERS[:3]) == [None, None, pytest.approx(0.2)]
    assert selector.failures == 1
    assert selector.judge(QUERY, PAPERS[:3]) == pytest.approx([0.0, 0.1, 0.2]), "a failure is not remembered"


def test_failures_that_pass_are_tried_again(classifier: JsonServer) -> None:
    selector = ClassifierSelector(classifier.url, **{**SETTINGS, "timeout": 0.2})
    classifier.script = [lambda: (503, b""), lambda: (0, b"")]
    assert selector.judge(QUERY, PAPERS[:1]) == [0.0] and selector.failures == 0
    classifier.script = [lambda: (time.sleep(0.4), (200, b"{}"))[1]] * 3
    assert selector.judge(QUERY, PAPERS[1:2]) == [None] and selector.failures == 1


def verdict(body: dict[str, Any]) -> dict[str, Any]:
    number = int(body["messages"][0]["content"].partition("Title: Title ")[2][:1])
    share = (number + 1) / 10
    top = [
        {"token": "True", "logprob": math.log(share * 0.8)},
        {"token": " true", "logprob": math.log(share * 0.1)},
        {"token": "False", "logprob": math.log((1 - share) * 0.9)},
        {"token": "Maybe", "logprob": math.log(0.1)},
    ]
    choice: dict[str, Any] = {"message": {"role": "assistant", "content": "True"}}
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": "True", "logprob": -0.1, "top_logprobs": top}]}
    return {"choices": [choice]}


@pytest.fixture
def endpoint() -> Iterator[JsonServer]:
    with serving(JsonServer(verdict)) as server:
        yield server


def test_the_judge_reads_probabilities(endpoint: JsonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-hidden")
    selector = JudgeSelector(f"{endpoint.url}/v1/", api_key_env="MY_KEY", **SETTINGS)
    assert selector.judge(QUERY, PAPERS) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert {request["path"] for request in endpoint.requests} == {"/v1/chat/completions"}
    assert all(headers["authorization"] == "Bearer sk-hidden" for headers in endpoint.seen_headers)
    assert endpoint.requests[0]["temperature"] == 0.0 and endpoint.requests[0]["top_logprobs"] == 5
    assert selector.judge(QUERY, PAPERS[:2]) == pytest.approx([0.1, 0.2]) and len(endpoint.requests) == 5
    data = pickle.dumps(selector)
    assert b"sk-hidden" not in data and "sk-hidden" not in repr(selector)
    assert pickle.loads(data).judge(QUERY, PAPERS[:1]) == pytest.approx([0.1])
    assert endpoint.seen_headers[-1]["authorization"] == "Bearer sk-hidden"


def test_the_judge_reads_words_where_there_are_no_probabilities(endpoint: JsonServer) -> None:
    selector = JudgeSelector(f"{endpoint.url}/v1", logprobs=False, **SETTINGS)
    assert selector.judge(QUERY, PAPERS[:1]) == [1.0] and "logprobs" not in endpoint.requests[0]


def said(text: Any, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}, **choice}]}


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        (said("True"), 1.0),
        (said(" false."), 0.0),
        (said("**Yes**, it does"), 1.0),
        (said("no", logprobs=None), 0.0),
        (said("True", logprobs={"content": []}), 1.0),
        (said("False", logprobs={"content": [{"top_logprobs": [{"token": "x", "logprob": -1}]}]}), 0.0),
        (said("x", logprobs={"content": [{"top_logprobs": [{"token": "\u0120True", "logprob": -2}]}]}), 1.0),
    ],
)
def test_verdicts(reply: dict[str, Any], score: float) -> None:
    assert read_verdict(reply) == score


@pytest.mark.parametrize(
    "reply", [{}, [], None, said("perhaps"), said(None), said(""), {"choices": []}, said("x", logprobs=3)]
)
def test_what_is_no_verdict(reply: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_verdict(reply)


def test_a_judge_that_fails_costs_the_call_its_reward_and_the_run_goes_on(endpoint: JsonServer) -> None:
    spec = {"name": "judge", "url": f"{endpoint.url}/v1", "retries": 0, "model": "m", "concurrency": 1}
    env = PaperSearchEnv("test", backend=small_backend(), relevance=spec, use_cutoff=False, threshold=0.0)
    env.reset(options={"task": 0})
    endpoint.answer = lambda body: said("True")
    endpoint.script = [lambda: (500, b"")]
    _, reward, *_, info = env.step("search[sand]\nsearch[gravel]")
    assert [call["ok"] for call in info["calls"]] == [False, True] and reward == 1.0
    assert info["reward_info"]["selector_failures"] == 1.0 and info["pool_size"] == 4
    _, reward, *_, info = env.step("search[sand]")
    assert reward == 1.0 and info["pool_size"] == 5
    assert PaperSearchEnv("test", relevance=spec).selector is env.selector, "one cache a process"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "classifier", "url": "http://x"}, "model"),
        ({"name": "classifier", "url": "http://x", "model": "m", "batch_size": 0}, "batch_size"),
        ({"name": "classifier", "url": "x", "model": "m"}, "address"),
        ({"name": "judge", "url": "http://x/v1", "model": "m", "concurrency": 0}, "concurrency"),
        ({"name": "judge", "url": "http://x/v1", "model": "m", "prompt": "{title}?"}, r"needs \{query\}"),
        ({"model": "m"}, "unknown relevance"),
    ],
)
def test_bad_specs(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_selector(spec)
