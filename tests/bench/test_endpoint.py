"""What is sent to an endpoint and what is kept of its replies, against a real server on this machine."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agent_r1_envs.services.endpoint import EndpointError
from agent_r1_trainer.bench.chat import ChatAgent
from agent_r1_trainer.bench.episode import read_log
from agent_r1_trainer.bench.run import BenchRun
from agent_r1_trainer.bench.sampling import complete_sampling, local_params
from agent_r1_trainer.bench.settings import BenchSettings, parse_agent
from agent_r1_trainer.commands.bench import bench_command
from agent_r1_trainer.files import ManifestError
from tests.helpers.json_server import JsonServer, serving

HOTPOT = "AgentR1/HotpotQA-v0"
ANSWER = '<tool_call>{"name": "answer", "arguments": {"answer": "x"}}</tool_call>'
USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": None},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def completion(content: Any, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content, **fields}}]}


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with serving(JsonServer(lambda body: {**completion(ANSWER), "usage": USAGE})) as running:
        yield running


def ask(server: JsonServer, sampling: dict[str, Any], times: int = 1, **options: Any) -> list[dict[str, Any]]:
    """Return what is sent, without the fields of every request."""
    agent = ChatAgent("m", server.url + "/v1", sampling=sampling, **{"retries": 0, "backoff": 0.001, **options})
    act = agent.begin(gymnasium.make(HOTPOT), {}, 7)
    for _ in range(times):
        act("hi", {})
    return [{k: v for k, v in r.items() if k not in ("path", "model", "messages")} for r in server.requests]


@pytest.mark.parametrize(
    ("sampling", "sent"),
    [
        ({}, {"temperature": 0.0, "max_tokens": 1024, "seed": 7}),
        (
            {"max_completion_tokens": 64, "top_p": 0.9},
            {"temperature": 0.0, "max_completion_tokens": 64, "top_p": 0.9, "seed": 7},
        ),
        (
            {"extra_body": {"top_k": 20, "temperature": 0.3}, "stop": ["\n"], "max_tokens": 5},
            {"temperature": 0.3, "max_tokens": 5, "top_k": 20, "stop": ["\n"], "seed": 7},
        ),
        ({"extra_body": {"max_completion_tokens": 9}}, {"temperature": 0.0, "max_completion_tokens": 9, "seed": 7}),
        ({"temperature": None, "max_tokens": None, "seed": None, "top_k": 1}, {"top_k": 1}),
        ({"any": {"a": [1, True]}}, {"temperature": 0.0, "max_tokens": 1024, "seed": 7, "any": {"a": [1, True]}}),
    ],
)
def test_sampling_is_sent_under_its_own_names(
    server: JsonServer, sampling: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert ask(server, sampling) == [sent]


@pytest.mark.parametrize(
    ("kind", "sampling", "problem"),
    [
        ("openai", {"messages": []}, "'messages' cannot be set"),
        ("openai", {"extra_body": {"stream": True}}, "'stream' cannot be set"),
        ("openai", {"extra_headers": {"x": "y"}}, "'extra_headers' cannot be set: set OPENAI_API_KEY"),
        ("openai", {"seed": 3}, "'seed' is made of --seed"),
        ("openai", {"extra_body": [1]}, "extra_body must be an object"),
        ("openai", {"top_p": float("nan")}, "top_p must be JSON data, got nan"),
        ("openai", {"max_tokens": 1, "max_completion_tokens": 2}, "the longest reply twice"),
        ("hf", {"top_pp": 0.5}, "no argument 'top_pp'; did you mean top_p"),
        ("hf", {"max_completion_tokens": 5}, "'max_completion_tokens'; did you mean max_tokens"),
        ("hf", {"seed": 1}, "--seed is the seed of the run"),
        ("hf", {"top_p": "0.5"}, "top_p must be a number"),
        ("hf", {"top_k": 2.5}, "top_k must be a number, and whole"),
        ("hf", {"top_p": 0}, r"top_p must be in \(0, 1\], got 0"),
        ("hf", {"max_tokens": 0}, "max_tokens must be at least 1"),
        ("random", {"temperature": 1.0}, "the agent random takes none"),
    ],
)
def test_arguments_that_are_not_for_an_agent_are_refused_by_name(
    kind: str, sampling: dict[str, Any], problem: str
) -> None:
    agent = {"openai": "openai:m@http://127.0.0.1:1/v1", "hf": "hf:m", "random": "random"}[kind]
    with pytest.raises(ValueError, match=problem):
        BenchSettings(env=HOTPOT, agent=parse_agent(agent), sampling=sampling)


def test_what_a_local_model_takes() -> None:
    params = local_params(complete_sampling("hf", "m", {"top_p": 0.5, "top_k": 3}), (1, 2))
    assert (params.top_p, params.top_k, params.temperature, params.max_new_tokens) == (0.5, 3, 0.0, 1024)
    assert params.stop_token_ids == (1, 2)


OLD_NAME = {
    "message": "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead.",
    "type": "invalid_request_error",
    "param": "max_tokens",
    "code": "unsupported_parameter",
}


def test_a_model_that_wants_the_newer_name_of_the_longest_reply_gets_it(server: JsonServer) -> None:
    server.status = lambda body: 400 if "max_tokens" in body else 200
    server.answer = lambda body: {"error": OLD_NAME} if "max_tokens" in body else completion("ok")
    sent = ask(server, {}, times=2)
    lengths = [{k: v for k, v in body.items() if "max" in k} for body in sent]
    assert lengths == [{"max_tokens": 1024}, {"max_completion_tokens": 1024}, {"max_completion_tokens": 1024}]


def test_a_length_that_is_too_large_is_no_question_of_its_name(server: JsonServer) -> None:
    said = {"message": "'max_tokens' or 'max_completion_tokens' is too large: 1024", "param": "max_tokens"}
    server.script = [lambda: (400, json.dumps({"error": said}).encode())]
    with pytest.raises(EndpointError, match="is too large: 1024"):
        ask(server, {})
    assert len(server.requests) == 1


def test_an_argument_that_a_model_refuses_is_named_with_the_way_out(server: JsonServer) -> None:
    said = {"message": "Unsupported value: 'temperature' does not support 0 with this model.", "param": "temperature"}
    server.script = [lambda: (400, json.dumps({"error": said}).encode())]
    with pytest.raises(EndpointError, match="does not support 0 with this model") as raised:
        ask(server, {})
    assert "to send no temperature: --sampling '{\"temperature\": null}'" in str(raised.value)


def command(server: JsonServer, out: Path, further: str = "{}", agent: str = "", **options: Any) -> int:
    named = {
        "env": HOTPOT, "agent": agent or f"openai:m@{server.url}/v1", "out": out, "split": "test", "episodes": 3,
        "seed": 0, "concurrency": 1, "env_kwargs": "{}", "max_turns": None, "recipe": None, "sampling": {},
        "transport": {"retries": 2}, "further": further,
    }  # fmt: skip
    return bench_command(**{**named, **options})


def test_use_is_kept_by_turn_and_added_up(
    server: JsonServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = [lambda: (200, b"<html>"), lambda: (200, json.dumps(completion("no call")).encode())]
    assert command(server, tmp_path) == 0
    first, *others = read_log(tmp_path / "episodes.jsonl")
    counted = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "cached_tokens": 4,
        "reasoning_tokens": 3,
    }
    assert [step.usage for step in first.steps] == [{"requests": 2}, {"requests": 1, **counted}]
    assert [step.usage for record in others for step in record.steps] == [{"requests": 1, **counted}] * 2
    expected = {"requests": 5, **{name: 3 * count for name, count in counted.items()}}
    assert json.loads((tmp_path / "summary.json").read_text())["usage"] == expected
    assert "used: 5 requests, 30 prompt tokens, 15 completion tokens" in capsys.readouterr().out


def test_another_sampling_is_another_run_and_old_folders_go_on(
    server: JsonServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(server, tmp_path, '{"top_p": 0.9, "stop": ["x"]}') == 0
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["sampling"] == {
        "recipe": "default", "temperature": 0.0, "max_tokens": 1024, "top_p": 0.9, "stop": ["x"]
    }  # fmt: skip
    asked = len(server.requests)
    assert command(server, tmp_path, '{"stop": ["x"], "top_p": 0.9}') == 0 and len(server.requests) == asked
    assert command(server, tmp_path, '{"top_p": 0.8, "stop": ["x"]}') == 2
    assert "other settings" in capsys.readouterr().err
    old = tmp_path / "old"  # as it was written before there were further arguments
    assert command(server, old) == 0
    written = json.loads((old / "manifest.json").read_text())
    assert written["sampling"] == {"recipe": "default", "temperature": 0.0, "max_tokens": 1024}
    settings = BenchSettings(env=HOTPOT, agent=parse_agent(f"openai:m@{server.url}/v1"), episodes=3)
    assert BenchRun(settings, old).resumed


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"further": "[1]"}, "--sampling must be a JSON object"),
        ({"further": "{'a': 1}"}, "--sampling must be a JSON object"),
        ({"further": '{"temperature": 1}', "sampling": {"temperature": 0.5}}, "--temperature 0.5 and --sampling"),
        ({"further": '{"max_completion_tokens": 1}', "sampling": {"max_tokens": 5}}, "--max-tokens 5 and --sampling"),
        ({"further": '{"top_p": 1}', "agent": "random"}, "--sampling is for a model; the agent random takes none"),
        ({"further": '{"n": 2}'}, "'n' cannot be set: one reply a turn is played"),
    ],
)
def test_the_command_refuses_what_cannot_be(
    server: JsonServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], problem: str
) -> None:
    assert command(server, tmp_path, **options) == 2
    assert problem in capsys.readouterr().err


def test_no_key_is_written_anywhere(
    server: JsonServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    server.script = [lambda: (401, b'{"error": {"message": "wrong key sk-very-secret-key"}}')]
    agent = f"openai:m@{server.url.replace('//', '//someone:pass-word@')}/v1?api-key=secret-value&version=2"
    assert command(server, tmp_path, agent=agent) == 0
    assert server.requests[0]["path"] == "/v1/chat/completions?api-key=secret-value&version=2"
    shown = capsys.readouterr()
    texts = [path.read_text() for path in tmp_path.iterdir()] + [shown.out, shown.err]
    for secret in ("sk-very-secret-key", "pass-word", "secret-value"):
        assert not any(secret in text for text in texts)
    assert "sk-very-secret-key" not in caplog.text and "pass-word" not in caplog.text
    assert f"openai:m@{server.url}/v1?api-key=[hidden]&version=2" in texts[0] + texts[1] + texts[2]
    # A folder of an earlier version has the password in its manifest, and goes on.
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "agent": agent}))
    settings = BenchSettings(env=HOTPOT, agent=parse_agent(agent), episodes=3)
    assert BenchRun(settings, tmp_path).resumed
    other = BenchSettings(env=HOTPOT, agent=parse_agent(agent.replace("openai:m", "openai:n")), episodes=3)
    with pytest.raises(ManifestError, match="agent") as raised:
        BenchRun(other, tmp_path)
    assert "pass-word" not in str(raised.value) and "secret-value" not in str(raised.value)
