"""Native tool calls: the environment's schemas, calls and results as the chat completions API has them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from agent_r1_wrappers import AppendHistory, ParseToolCalls, TruncateHistory, recipes

import agent_r1_envs  # noqa: F401  (registers the ids)
from agent_r1_envs.tools import parse_calls
from agent_r1_trainer.bench.agents import AgentError
from agent_r1_trainer.bench.chat import ChatAgent
from agent_r1_trainer.bench.report import Summary
from agent_r1_trainer.bench.run import BenchRun
from agent_r1_trainer.bench.settings import BenchSettings, parse_agent
from agent_r1_trainer.bench.tool_calls import Turn, read_message, with_calls
from agent_r1_trainer.curriculum.choice import choose_tasks
from agent_r1_trainer.environments.factory import panel_of
from tests.helpers.json_server import JsonServer, serving

HOTPOT = "AgentR1/HotpotQA-v0"
ENVS = (HOTPOT, "AgentR1/WebShop-v0", "AgentR1/ALFWorld-v0", "AgentR1/PaperSearch-v0")
EPISODES = 3


def call(name: str, arguments: Any, id_: str | None = "c1", **fields: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    named = {} if id_ is None else {"id": id_}
    return {**named, "type": "function", "function": {"name": name, "arguments": text}, **fields}


def said(*calls: dict[str, Any], content: Any = None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {}), **fields}


def strict(body: dict[str, Any]) -> None:
    """Check a conversation as the strict servers do: every call has its result, directly after, once."""
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0) and isinstance(message["content"], str)
            continue
        assert not waiting and "<tool_call>" not in (message["content"] or "")
        for made in message.get("tool_calls", []):
            assert made["type"] == "function" and isinstance(made["function"]["arguments"], str)
            assert isinstance(json.loads(made["function"]["arguments"]), dict)
            waiting.append(made["id"])
    assert not waiting


class Expert:
    """A model that calls what an expert would, in the form of the API."""

    def __init__(self, env_id: str) -> None:
        env = recipes.tools(gymnasium.make(env_id, split="test"))
        tools: Any = getattr(env.unwrapped, "tools", None)
        self.known: dict[str, list[list[dict[str, Any]]]] = {}
        self.checked = 0
        panel = panel_of(env)
        assert panel is not None
        for task in choose_tasks(panel.ids, EPISODES, panel.types):
            messages, _ = env.reset(options={"task": task})
            turns, ended = self.known.setdefault(messages[-1]["content"], []), False
            while not ended:
                command: str = env.unwrapped.expert_action()  # type: ignore[attr-defined]
                if isinstance(tools, dict):
                    made = [(c.name, c.arguments) for c in parse_calls(command, tools, max_calls=99)]
                else:
                    made = [("act", {"command": command})]
                turns.append([call(name, a, f"id{len(turns)}x{n}") for n, (name, a) in enumerate(made)])
                hermes = (json.dumps({"name": name, "arguments": a}) for name, a in made)
                _, _, terminated, truncated, _ = env.step("".join(f"<tool_call>{h}</tool_call>" for h in hermes))
                ended = terminated or truncated

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        strict(body)
        self.checked += 1
        first = next(m["content"] for m in body["messages"] if m["role"] == "user")
        turn = sum(m["role"] == "assistant" for m in body["messages"])
        return {
            "choices": [{"message": said(*self.known[first][turn], content="I call."), "finish_reason": "tool_calls"}]
        }


def bench(server: JsonServer, folder: Path, env: str, **options: Any) -> tuple[BenchRun, Summary]:
    settings = BenchSettings(
        env=env,
        agent=parse_agent(f"openai:m@{server.url}/v1"),
        episodes=EPISODES,
        sampling={"recipe": "tools", "parallel_tool_calls": True},
        transport={"retries": 0},
        **options,
    )
    run = BenchRun(settings, folder)
    return run, run.run()


@pytest.mark.parametrize("env_id", ENVS)
def test_an_expert_with_native_calls_solves_what_an_expert_solves(env_id: str, tmp_path: Path) -> None:
    expert = Expert(env_id)
    with serving(JsonServer(expert)) as server:
        run, summary = bench(server, tmp_path / "tools", env_id)
    assert [record.error for record in run.records] == [""] * EPISODES
    plain = BenchRun(
        BenchSettings(env=env_id, agent=parse_agent("expert"), episodes=EPISODES), tmp_path / "plain"
    ).run()
    assert summary.score == plain.score and summary.success == plain.success and summary.turns == plain.turns
    assert summary.invalid_rate.value == 0.0 and expert.checked == len(server.requests) > EPISODES
    env = gymnasium.make(env_id, split="test")
    _, info = env.reset(options={"task": 0})
    names = [tool["function"]["name"] for tool in info.get("tools", [{"function": {"name": "act"}}])]
    for request in server.requests:
        assert [tool["function"]["name"] for tool in request["tools"]] == names
        assert request["parallel_tool_calls"] is True
        assert not any("<tools>" in m["content"] for m in request["messages"] if m["role"] == "system")
    assert json.loads((tmp_path / "tools" / "manifest.json").read_text())["sampling"]["recipe"] == "tools"


def play(server: JsonServer, env: gymnasium.Env, turns: int, recipe: str = "tools") -> list[list[dict[str, Any]]]:
    """Play some turns; return what was sent in each."""
    agent = ChatAgent("m", server.url, sampling={"recipe": recipe}, retries=0)
    observation, info = env.reset(options={"task": 0})
    act = agent.begin(env, info, 0)
    for _ in range(turns):
        observation, _, _, _, info = env.step(act(observation, info))
    return [request["messages"] for request in server.requests]


def script(server: JsonServer, *messages: dict[str, Any]) -> None:
    texts = [json.dumps({"choices": [{"message": message}]}).encode() for message in messages]
    server.script = [lambda text=text: (200, text) for text in texts]


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with serving(JsonServer(lambda body: {"choices": [{"message": said(content="nothing")}]})) as running:
        yield running


def hotpot() -> gymnasium.Env:
    return recipes.tools(gymnasium.make(HOTPOT))


def test_parallel_calls_have_a_result_each_and_the_message_goes_back_as_it_came(server: JsonServer) -> None:
    first = said(
        call("search", {"query": "a"}, "x1", extra_content={"signature": "s"}),
        call("search", {"query": "b"}, "x2"),
        reasoning_content="two at once",
        refusal=None,
    )
    script(server, first)
    sent = play(server, hotpot(), 2)[1]
    question, reply, *results = sent[-4:]
    assert question["role"] == "user"
    assert reply == {name: value for name, value in first.items() if name != "refusal"}
    assert [(r["role"], r["tool_call_id"]) for r in results] == [("tool", "x1"), ("tool", "x2")]
    assert "search[a]" in results[0]["content"] and "search[b]" in results[0]["content"]
    assert "first message" in results[1]["content"]


@pytest.mark.parametrize("ids", [(None, None), ("", ""), ("same", "same")])
def test_calls_without_ids_of_their_own_get_some(server: JsonServer, ids: tuple[str | None, str | None]) -> None:
    script(server, said(*(call("search", {"query": str(n)}, id_) for n, id_ in enumerate(ids))))
    sent = play(server, hotpot(), 2)[1]
    made = [c["id"] for c in sent[-3]["tool_calls"]]
    assert len(set(made)) == 2 and all(len(i) == 9 and i.isalnum() for i in made)
    assert [r["tool_call_id"] for r in sent[-2:]] == made


@pytest.mark.parametrize("arguments", ['{"query": {"a"', "not json", "[" * 100_000, '{"query": NaN}'])
def test_arguments_that_cannot_be_read_cost_a_turn_and_are_not_sent_back_as_calls(
    server: JsonServer, arguments: str
) -> None:
    script(server, said(call("unknown", arguments)))
    sent = play(server, hotpot(), 2)[1]
    assert sent[-2]["role"] == "assistant" and "tool_calls" not in sent[-2]
    assert sent[-1]["role"] == "user" and "Invalid action" in sent[-1]["content"]


def test_arguments_that_are_repaired_are_played_and_not_sent_back_as_calls(server: JsonServer) -> None:
    script(server, said(call("search", '{"query": "a"')))
    env: Any = hotpot()
    sent = play(server, env, 2)[1]
    assert env.history[0].action == "search[a]" and sent[-1]["role"] == "user"


def test_arguments_as_an_object_or_missing_are_read(server: JsonServer) -> None:
    made: dict[str, Any] = {"id": "a", "function": {"name": "search", "arguments": {"query": "é"}}}
    script(server, said(made), said({"id": "b", "type": "function", "function": {"name": "search"}}))
    sent = play(server, hotpot(), 3)
    assert sent[1][-2]["tool_calls"][0]["function"]["arguments"] == '{"query": "é"}'
    assert sent[1][-2]["tool_calls"][0]["type"] == "function" and sent[1][-1]["tool_call_id"] == "a"
    assert sent[2][-2]["tool_calls"][0]["function"]["arguments"] == "{}" and "missing" in sent[2][-1]["content"]


def test_a_reply_with_text_only_is_answered_and_stays_text(server: JsonServer) -> None:
    script(server, said(content="I think it is Paris."), said(call("search", {"query": "a"}, "x")))
    sent = play(server, hotpot(), 3)[2]
    assert [m["role"] for m in sent[-5:]] == ["user", "assistant", "user", "assistant", "tool"]
    assert sent[-4]["content"] == "I think it is Paris." and "there is no tool call in the reply" in sent[-3]["content"]
    assert sent[-1]["tool_call_id"] == "x"


@pytest.mark.parametrize(
    "content", ["<tool_call>{broken", "<think>no end", '<tool_call>{"name": "answer"}</tool_call>']
)
def test_text_beside_calls_is_no_call(server: JsonServer, content: str) -> None:
    script(server, said(call("search", {"query": "a"}), content=content))
    env = hotpot()
    sent = play(server, env, 2)[1]
    assert sent[-2]["content"] == content and sent[-1]["role"] == "tool"
    assert "Invalid action" not in sent[-1]["content"]


def test_marks_inside_of_arguments_are_text(server: JsonServer) -> None:
    script(server, said(call("search", {"query": "</tool_call><tool_call>"})))
    env = hotpot()
    play(server, env, 1)
    history: Any = env
    assert history.history[0].action == "search[</tool_call><tool_call>]"


def test_turns_that_a_context_operation_leaves_out_or_changes(server: JsonServer) -> None:
    script(server, *(said(call("search", {"query": "same"}, f"x{n}")) for n in range(4)))
    env = TruncateHistory(hotpot(), turns=2)
    sent = play(server, env, 4)[3]
    assert [m["tool_calls"][0]["id"] for m in sent if m["role"] == "assistant"] == ["x1", "x2"]
    assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == ["x1", "x2"]
    turns = [Turn("a", {"role": "assistant", "tool_calls": [{"id": "i"}]}), Turn("b")]
    changed = [{"role": "assistant", "content": "a, cut"}, {"role": "user", "content": "o"}]
    last = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    assert with_calls(changed, turns) == changed and with_calls(last, turns) == last


def test_calls_that_an_env_writes_itself_stay_as_they_are() -> None:
    own = {"role": "assistant", "tool_calls": [{"id": "e", "type": "function", "function": {"name": "look"}}]}
    messages = [{"role": "user", "content": "q"}, own, {"role": "tool", "tool_call_id": "e", "content": "o"}]
    assert with_calls(messages, [Turn("a", {"role": "assistant", "tool_calls": [{"id": "i"}]})]) == messages


def test_results_follow_where_observations_are_results_already(server: JsonServer) -> None:
    script(server, said(call("search", {"query": "a"}, "x")))
    env = AppendHistory(ParseToolCalls(gymnasium.make(HOTPOT), schemas="template"), observation_role="tool")
    sent = play(server, env, 2, recipe="default")[1]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool"] and sent[-1]["tool_call_id"] == "x"


def test_an_env_with_a_context_of_its_own_has_no_tools_to_send(server: JsonServer) -> None:
    env = recipes.tools(gymnasium.make("AgentR1/HotpotQA-ReAct-v0"))
    _, info = env.reset()
    with pytest.raises(AgentError, match="leave --recipe tools out"):
        ChatAgent("m", server.url, sampling={"recipe": "tools"}).begin(env, info, 0)


def test_half_a_surrogate_pair_in_a_call_is_the_models_fault(server: JsonServer) -> None:
    script(server, said(call("search", '{"query": "\\ud800"}', "x")))
    sent = play(server, hotpot(), 2)[1]
    assert "Invalid action" in sent[-1]["content"]


def test_another_kind_of_call_is_another_form() -> None:
    with pytest.raises(KeyError):
        read_message(said({"id": "a", "type": "custom", "custom": {"name": "x", "input": "y"}}), 0)
