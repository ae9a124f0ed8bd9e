"""One rule of trying again for every client, and what a client of JSON never shows; real servers on this machine."""

import json
import logging
import pickle
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

from agent_r1_envs.services.endpoint import EndpointError, JsonEndpoint, chat_address
from agent_r1_envs.services.retry import RetryPolicy, retry_after
from agent_r1_envs.services.secrecy import public_address
from tests.helpers.json_server import JsonServer, serving

KEY = "sk-very-secret-key"


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with serving(JsonServer(lambda body: {"echo": body})) as running:
        yield running


def endpoint(server: JsonServer, **options: Any) -> JsonEndpoint:
    return JsonEndpoint(server.url + "/v1", **{"timeout": 5.0, "backoff": 0.001, "retries": 3, **options})


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (200, b"<html>sign in</html>"),
        (200, b""),
        (200, b'{"half": '),
        (200, b"\xff\xfe"),
        (200, b"[" * 100_000),
        (409, b"{}"),
        (500, b"{}"),
        (529, b'{"error": "overloaded"}'),
        (0, b""),
    ],
)
def test_what_may_pass_is_tried_again_and_counted(server: JsonServer, status: int, content: bytes) -> None:
    server.script = [lambda: (status, content)] * 2
    assert endpoint(server).ask({"a": 1}) == ({"echo": {"a": 1}}, 3)
    server.script = [lambda: (status, content)] * 9
    with pytest.raises(EndpointError, match=r"/v1 failed 4 times, last with "):
        endpoint(server).post({})
    assert len(server.requests) == 3 + 4


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (400, b'{"error": {"message": "no such argument: colour", "param": "colour"}}', "'no such argument: colour'"),
        (404, b'{"detail": "no such model"}', "'no such model'"),
        (422, b'{"message": "bad"}', "'bad'"),
        (403, b"<html>no</html>", "'<html>no</html>'"),
        (400, b'{"error": []}', "error"),
    ],
)
def test_a_refusal_is_final_and_says_what_the_server_said(
    server: JsonServer, status: int, content: bytes, said: str
) -> None:
    server.script = [lambda: (status, content)]
    with pytest.raises(EndpointError, match=f"refused the request: HTTP {status}: ") as raised:
        endpoint(server).post({})
    assert said in str(raised.value) and raised.value.status == status and len(server.requests) == 1


def test_a_move_is_named(server: JsonServer) -> None:
    server.headers = {"location": "https://elsewhere/v1"}
    server.script = [lambda: (301, b"")]
    with pytest.raises(EndpointError, match="it moved to 'https://elsewhere/v1'"):
        endpoint(server).post({})


@pytest.mark.parametrize("form", ["number", "date"])
def test_a_pause_that_is_asked_for_is_kept(server: JsonServer, form: str) -> None:
    # A date says whole seconds: two of them are at least one from now.
    server.headers = {"retry-after": "1" if form == "number" else formatdate(time.time() + 2, usegmt=True)}
    server.script = [lambda: (429, b"")]
    begin = time.monotonic()
    endpoint(server).post({})
    assert 1.0 <= time.monotonic() - begin < 10


def test_pauses_grow_are_drawn_and_have_an_end() -> None:
    policy = RetryPolicy(retries=5, backoff=1.0, longest_pause=20.0)
    for attempt in range(5):
        drawn = {policy.pause(attempt) for _ in range(50)}
        assert len(drawn) > 1 and 0.5 * 2**attempt <= min(drawn) <= max(drawn) <= min(2**attempt, 20)
    assert policy.pause(10_000) == 20.0
    asked = {policy.pause(0, 10.0) for _ in range(50)}
    assert len(asked) > 1 and 10 <= min(asked) <= max(asked) <= 11
    assert policy.pause(0, 86_400.0) == 20.0
    assert retry_after(formatdate(time.time() - 100, usegmt=True)) == retry_after("-3") == retry_after("nan") == 0.0
    with pytest.raises(ValueError, match="expected retries >= 0"):
        RetryPolicy(retries=-1)


def test_the_key_is_read_when_it_is_sent_and_kept_nowhere(
    server: JsonServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = endpoint(server, key_env="A_KEY")
    client.post({})
    monkeypatch.setenv("A_KEY", f" {KEY}\n")  # as a file gives it
    server.script = [lambda: (401, json.dumps({"error": {"message": f"wrong key: {KEY}"}}).encode())]
    with pytest.raises(EndpointError, match=r"wrong key: \[hidden\]"):
        client.post({})
    assert "authorization" not in server.seen_headers[0]
    assert server.seen_headers[1]["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in pickle.dumps(client) and KEY not in caplog.text
    monkeypatch.setenv("A_KEY", "two\nlines")
    with pytest.raises(EndpointError, match="A_KEY holds no key"):
        client.post({})


def test_what_is_secret_in_an_address_is_used_and_not_shown(
    server: JsonServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    address = server.url.replace("http://", "http://someone:pass%40word1@") + "/v1"
    client = JsonEndpoint(address, retries=0)
    client.post({})
    assert server.seen_headers[0]["authorization"].startswith("Basic ")
    server.script = [lambda: (503, b"pass@word1")]
    with pytest.raises(EndpointError) as raised:
        client.post({})
    assert "word1" not in str(raised.value) + caplog.text and server.url + "/v1" in str(raised.value)
    with pytest.raises(ValueError, match="got 'ftp://host/x'"):
        JsonEndpoint("ftp://u:p@host/x")
    assert public_address("http://h/v1?api-version=2&Subscription-Key=k1/x@y") == (
        "http://h/v1?api-version=2&Subscription-Key=[hidden]"
    )
    assert public_address("openai:a@b/c@http://u:p@host:1/v1") == "openai:a@b/c@http://host:1/v1"
    assert public_address("random") == "random"


@pytest.mark.parametrize("said", ["wrong key: {key}", "wrong header: Bearer {key}"])
def test_a_key_in_a_header_is_not_shown_either(server: JsonServer, said: str) -> None:
    client = endpoint(server, headers={"Authorization": f"Bearer {KEY}", "accept": "application/json"})
    server.script = [lambda: (401, json.dumps({"error": said.format(key=KEY)}).encode())]
    with pytest.raises(EndpointError, match="wrong ") as raised:
        client.post({})
    assert KEY not in str(raised.value) and server.seen_headers[0]["authorization"] == f"Bearer {KEY}"


def test_odd_text_can_be_sent_and_odd_numbers_cannot(server: JsonServer) -> None:
    assert endpoint(server).post({"a": "é\ud800"}) == {"echo": {"a": "é?"}}
    with pytest.raises(ValueError, match="not JSON compliant"):
        endpoint(server).post({"a": float("nan")})


@pytest.mark.parametrize("url", ["", "host/v1", "ftp://host", "http://", "http://[::1", "http://u:p@h:99999/", None, 3])
def test_what_is_no_address_is_refused_at_once(url: Any) -> None:
    for make in (JsonEndpoint, chat_address):
        with pytest.raises(ValueError, match="expected an address like http://host:port/.*, got '(?!.*u:p)"):
            make(url)


def test_addresses_of_chat_completions() -> None:
    whole = "https://h/openai/deployments/d/chat/completions?api-version=1"
    assert chat_address(whole) == whole
    assert chat_address("http://h/v1/?a=b") == "http://h/v1/chat/completions?a=b"
    assert chat_address("http://h") == "http://h/chat/completions"
    with pytest.raises(ValueError, match="expected an address"):
        chat_address("h:80/v1")
