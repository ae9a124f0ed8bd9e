"""The openai: agent against a real server on this machine."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from agent_r1_wrappers import recipes, reply_for

import agent_r1_envs  # noqa: F401  (registers the ids)
from agent_r1_envs.services.endpoint import EndpointError
from agent_r1_trainer.bench.agents import AgentError
from agent_r1_trainer.bench.chat import ChatAgent
from agent_r1_trainer.bench.report import Summary
from agent_r1_trainer.bench.run import BenchRun
from agent_r1_trainer.bench.settings import BenchSettings, parse_agent
from agent_r1_trainer.curriculum.choice import choose_tasks
from agent_r1_trainer.environments.factory import panel_of
from tests.helpers.json_server import JsonServer, Reply, serving

HOTPOT = "AgentR1/HotpotQA-v0"
EPISODES = 6


@pytest.fixture(scope="module")
def replies() -> dict[str, list[str]]:
    """What an expert would reply to the first message of each task, turn by turn."""
    env = recipes.default(gymnasium.make(HOTPOT, split="test"))
    known = {}
    panel = panel_of(env)
    assert panel is not None
    for task in choose_tasks(panel.ids, EPISODES, panel.types):
        messages, _ = env.reset(options={"task": task})
        question, turns, ended = messages[-1]["content"], [], False
        while not ended:
            turns.append(reply_for(env, env.unwrapped.expert_action()))  # type: ignore[attr-defined]
            _, _, ended, _, _ = env.step(turns[-1])
        known[question] = turns
    return known


@pytest.fixture
def server(replies: dict[str, list[str]]) -> Iterator[JsonServer]:
    """A model that remembers what the expert said."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        first = next(m["content"] for m in body["messages"] if m["role"] == "user")
        said = sum(m["role"] == "assistant" for m in body["messages"])
        return completion(replies[first][said])

    with serving(JsonServer(answer)) as running:
        yield running


def completion(content: Any, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content, **fields}, "finish_reason": "stop"}]}


def fixed(content: Any, **fields: Any) -> Any:
    return lambda: (200, json.dumps(completion(content, **fields)).encode())


def bench(server: JsonServer, folder: Path, concurrency: int = 1, **transport: Any) -> tuple[BenchRun, Summary]:
    settings = BenchSettings(
        env=HOTPOT,
        agent=parse_agent(f"openai:tiny@{server.url}/v1"),
        episodes=EPISODES,
        concurrency=concurrency,
        sampling={"recipe": "default", "temperature": 0.5, "max_tokens": 64},
        transport={"timeout": 5.0, "retries": 2, "backoff": 0.001, **transport},
    )
    run = BenchRun(settings, folder)
    return run, run.run()


@pytest.mark.parametrize("concurrency", [1, 4])
def test_plays_whole_episodes(server: JsonServer, tmp_path: Path, concurrency: int) -> None:
    run, summary = bench(server, tmp_path, concurrency)
    assert summary.success.value == 1.0 and summary.failed == 0 and summary.invalid_rate.value == 0.0
    request = server.requests[0]
    assert request["path"] == "/v1/chat/completions"
    assert {k: request[k] for k in ("model", "temperature", "max_tokens")} == {
        "model": "tiny",
        "temperature": 0.5,
        "max_tokens": 64,
    }
    assert "tools" not in request and request["messages"][0]["role"] == "system"
    assert "<tool_call>" in run.records[0].steps[0].action and run.records[0].steps[0].observation


def test_failures_that_pass_are_not_noticed(server: JsonServer, tmp_path: Path) -> None:
    late = b'{"error": {"code": 503, "message": "no provider answers"}}'
    page = b"<html>starting</html>"
    server.script = [lambda: (503, b"loading"), lambda: (0, b""), lambda: (200, page)]
    server.script += [lambda: (200, completed), lambda: (200, late), lambda: (200, b"")]
    completed = json.dumps(completion("<tool_call>")).encode()
    summary = bench(server, tmp_path, retries=3)[1]
    assert summary.failed == 0 and summary.usage["requests"] == len(server.requests)


def test_an_episode_that_fails_is_counted_and_can_be_played_again(server: JsonServer, tmp_path: Path) -> None:
    page = [lambda: (200, b"<html>")] * 3
    server.script = [lambda: (400, b"the prompt is too long"), *page, lambda: (200, b'{"a": 1}')]
    run, summary = bench(server, tmp_path)
    assert summary.failed == 3 and summary.success.value == 0.5
    errors = [record.error for record in run.records[:3]]
    assert "refused the request: HTTP 400" in errors[0] and "the prompt is too long" in errors[0]
    assert "failed 3 times, last with HTTP 200 and no JSON" in errors[1]
    assert "another form than chat completions" in errors[2]
    assert bench(server, tmp_path)[1].success.value == 1.0


def test_a_slow_server_is_a_failed_episode(server: JsonServer, tmp_path: Path) -> None:
    def late() -> Reply:
        time.sleep(0.3)
        return 200, b"{}"

    server.script = [late]
    run, summary = bench(server, tmp_path, timeout=0.1, retries=0)
    assert summary.failed == 1 and "ReadTimeout" in run.records[0].error


def test_the_key_is_sent(server: JsonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    server.script = [fixed("hello")]
    act = ChatAgent("m", server.url).begin(gymnasium.make(HOTPOT), {}, 7)
    assert act("hi", {}) == "hello"
    assert server.seen_headers[0]["authorization"] == "Bearer sk-test"
    assert server.requests[0]["messages"] == [{"role": "user", "content": "hi"}] and server.requests[0]["seed"] == 7


CALL = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"query": "caf\\u00e9"}'}}


@pytest.mark.parametrize(
    ("content", "fields", "expected"),
    [
        ("x", {}, "x"),
        (None, {}, ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], {}, "ab"),
        (
            "I look.",
            {"tool_calls": [CALL]},
            'I look.\n<tool_call>\n{"name": "search", "arguments": {"query": "café"}}\n</tool_call>',
        ),
        (
            None,
            {"tool_calls": [{"function": {"name": "search", "arguments": "{broken"}}]},
            '<tool_call>\n{"name": "search", "arguments": {broken}\n</tool_call>',
        ),
    ],
)
def test_forms_of_a_reply(server: JsonServer, content: Any, fields: dict[str, Any], expected: str) -> None:
    server.script = [fixed(content, **fields)]
    act = ChatAgent("m", server.url + "/v1/chat/completions").begin(gymnasium.make(HOTPOT), {}, 0)
    assert act("hi", {}) == expected
    assert server.requests[0]["path"] == "/v1/chat/completions"


def test_schemas_of_the_template_go_along_as_tools(server: JsonServer) -> None:
    tools = [{"type": "function", "function": {"name": "search", "parameters": {}}}]
    server.script = [fixed("ok")]
    ChatAgent("m", server.url).begin(gymnasium.make(HOTPOT), {"chat_template_kwargs": {"tools": tools}}, 0)("hi", {})
    assert server.requests[0]["tools"] == tools


def test_what_a_chat_model_cannot_read(server: JsonServer) -> None:
    act = ChatAgent("m", server.url).begin(gymnasium.make(HOTPOT), {}, 0)
    with pytest.raises(AgentError, match="reads messages or text, not int"):
        act(3, {})


def test_nobody_listens() -> None:
    with serving(JsonServer(lambda body: {})) as closed:
        url = closed.url
    act = ChatAgent("m", url, retries=1, backoff=0.001).begin(gymnasium.make(HOTPOT), {}, 0)
    with pytest.raises(EndpointError, match="failed 2 times, last with ConnectError"):
        act("hi", {})
