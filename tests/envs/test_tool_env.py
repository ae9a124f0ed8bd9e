"""What a turn of tool calls does."""

import pytest

from agent_r1_envs.tasks import TaskSet
from agent_r1_envs.tools import Tool, ToolEnv
from tests.helpers.contract import check_reset, check_step
from tests.helpers.directory_env import DirectoryEnv


@pytest.fixture
def env() -> DirectoryEnv:
    env = DirectoryEnv()
    check_reset(env, options={"task": 0})
    return env


def calls(info: dict) -> list[tuple[str, bool, float]]:
    return [(call["name"], call["ok"], call["reward"]) for call in info["calls"]]


def test_reset_shows_the_tools_and_the_answer() -> None:
    _, info = DirectoryEnv().reset()
    names = [tool["function"]["name"] for tool in info["tools"]]
    assert names == ["friend", "city", "note", "answer"]
    assert info["calls"] == []


def test_one_call_gives_its_result(env: DirectoryEnv) -> None:
    observation, reward, terminated, truncated, info = check_step(env, "city[明子]")
    assert observation == "明子 lives in São Paulo."
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["calls"] == [{"name": "city", "arguments": {"person": "明子"}, "ok": True, "error": "", "reward": 0.0}]


def test_several_calls_run_in_order_and_a_failing_one_is_reported(env: DirectoryEnv) -> None:
    action = 'note[a]\ncity[nobody]\nsing[la]\n{"name": "note", "arguments": {"text": "b", "times": "2"}}'
    observation, reward, _, _, info = check_step(env, action)
    assert calls(info) == [("note", True, 0.125), ("city", False, 0.0), ("sing", False, 0.0), ("note", True, 0.125)]
    assert reward == 0.25
    assert env.notes == ["a", "b", "b"]
    assert "invalid_action" not in info
    blocks = observation.split("\n\n")
    assert blocks[0] == "note[a]\n1 notes"
    assert blocks[1] == "city[nobody]\nError: nobody is called 'nobody'"
    assert "there is no tool 'sing'; there are friend, city, note, answer" in blocks[2]
    assert blocks[3].endswith("3 notes")


@pytest.mark.parametrize(
    "action",
    [
        "note[a] is what I do",
        "note[a]\nthen prose",
        'note[a]\n{"name": "note"',
        "note[a]\n" * 5,
        "note[a]\nanswer[b]",
        "answer[a]\nanswer[b]",
        "sing[la]",
        "sing[la]\ndance[]",
        '{"name": "note", "arguments": {"times": 2}}',
        '{"name": "answer", "arguments": {"text": "b"}}',
        '{"name": "answer", "arguments": {"answer": ["b"]}}',
    ],
)
def test_nothing_runs_and_the_observation_says_why(env: DirectoryEnv, action: str) -> None:
    observation, reward, terminated, _, info = check_step(env, action)
    assert info["invalid_action"]
    assert (reward, terminated, env.notes) == (0.0, False, [])
    assert info["invalid_action"].split(";")[0] in observation


def test_a_text_that_cannot_be_read_is_shown_the_right_form(env: DirectoryEnv) -> None:
    observation, *_ = check_step(env, "I want to call city.")
    assert "city[person]" in observation
    assert '{"name": "friend", "arguments": {"person": "..."}}' in observation


def test_arguments_that_do_not_fit_are_shown_the_right_form(env: DirectoryEnv) -> None:
    observation, *_ = check_step(env, '{"name": "city", "arguments": {"name": "Zoë"}}')
    assert "argument 'person' is missing" in observation
    assert '{"name": "city", "arguments": {"person": "..."}}' in observation


def test_an_error_of_the_tool_is_a_failed_call_but_a_valid_action(env: DirectoryEnv) -> None:
    *_, info = check_step(env, "city[nobody]")
    assert "invalid_action" not in info
    assert info["calls"][0]["error"] == "nobody is called 'nobody'"


@pytest.mark.parametrize("name", ["answer", "finish"])
@pytest.mark.parametrize("form", ["{}[Reykjavík]", '{{"name": "{}", "arguments": {{"answer": "Reykjavík"}}}}'])
def test_the_answer_ends_the_episode_under_both_names(env: DirectoryEnv, name: str, form: str) -> None:
    env.reset(options={"task": 2})
    assert env.expert_action() == "city[Noël]"
    check_step(env, env.expert_action())
    assert env.expert_action() == "answer[Reykjavík]"
    *_, terminated, _, info = check_step(env, form.format(name))
    assert terminated and info["success"] and info["reward_info"] == {"em": 1.0, "answered": 1.0}
    assert info["calls"][0]["name"] == "answer"


def test_other_exceptions_propagate_and_end_the_episode(env: DirectoryEnv) -> None:
    from agent_r1_envs.errors import ResetNeeded

    with pytest.raises(RuntimeError, match="pencil"):
        env.step("note[crash]")
    with pytest.raises(ResetNeeded):
        env.step("note[a]")
    check_reset(env)
    check_step(env, "note[a]")


def test_observations_are_cut_and_cleaned() -> None:
    env = DirectoryEnv(max_length=40)
    observation, _ = check_reset(env)
    assert len(observation) == 40 and observation.endswith("…")
    env = DirectoryEnv()
    check_reset(env)
    observation, *_ = check_step(env, "city[a\x00\x1b[31mb\x85]")
    assert "\x00" not in observation and "\x1b" not in observation and "\x85" not in repr(observation)


def build(**kwargs: object) -> DirectoryEnv:
    return DirectoryEnv(**kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kwargs",
    [
        {"max_calls": 0},
        {"answer_aliases": ("city",)},
        {"answer_aliases": ("done", "done")},
        {"order": "sorted"},
        {"shard": (1, 1)},
        {"shard": (-1, 2)},
        {"shard": (8, 9)},
        {"shard": (0, 1, 2)},
        {"shard": ("0", "1")},
        {"shard": 3},
        {"max_length": 0},
        {"render_mode": "human"},
        {"people": 0},
    ],
)
def test_bad_constructor_arguments_raise(kwargs: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=".+"):
        build(**kwargs)


def test_an_env_needs_a_tool() -> None:
    panel = TaskSet(["x"], dataset="synthetic", split="test", ids=["x"])
    with pytest.raises(ValueError, match="tools"):
        ToolEnv(panel, [], answer_aliases=())


def test_an_env_without_an_answer_has_only_its_tools() -> None:
    env = DirectoryEnv(answer_aliases=())
    _, info = env.reset()
    assert [tool["function"]["name"] for tool in info["tools"]] == ["friend", "city", "note"]
    assert env.step("answer[x]")[4]["invalid_action"].startswith("there is no tool 'answer'")


def test_tools_may_be_made_before() -> None:
    def shout(text: str) -> str:
        return text.upper()

    panel = TaskSet(["x"], dataset="synthetic", split="test", ids=["x"])
    env = ToolEnv(panel, [Tool.from_function(shout, name="cry"), shout])
    assert list(env.tools) == ["cry", "shout", "answer", "finish"]


def test_rendering() -> None:
    env = DirectoryEnv(render_mode="ansi")
    env.reset(options={"task": 0})
    env.step("city[Zoë]")
    assert env.render() == "[errand-0, turn 1]\nZoë lives in Århus."
