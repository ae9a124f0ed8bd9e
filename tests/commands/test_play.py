import io
from typing import Any

import gymnasium
import pytest
from agent_r1_wrappers import reply_for

from agent_r1_envs.spaces import FreeText
from agent_r1_trainer.commands.envs import environment_lines
from agent_r1_trainer.commands.play import play_in_terminal

HOTPOT = "AgentR1/HotpotQA-v0"


class DoorEnv(gymnasium.Env[str, str]):
    observation_space = action_space = FreeText(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "A [closed] door.", {"admissible_actions": ["open door", "wait"], "instruction": "Get out."}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        won = action == "open door"
        info = {"admissible_actions": ["open door", "wait"], "success": won, "score": float(won)}
        return f"You {action}.", float(won), won, False, info


@pytest.fixture(autouse=True, scope="module")
def door() -> Any:
    gymnasium.register("Door-v0", entry_point=DoorEnv, max_episode_steps=3)
    yield
    del gymnasium.registry["Door-v0"]


def play(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], env: str, typed: str, **options: Any
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    given = {"split": "test", "task": None, "seed": 0, "env_kwargs": "{}", **options}
    code = play_in_terminal(env, **given)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_numbers_choose_actions(monkeypatch: Any, capsys: Any) -> None:
    code, shown, _ = play(monkeypatch, capsys, "Door-v0", "wait\n1\n")
    assert code == 0
    for words in ("Get out.", "A [closed] door.", "1  open door", "You wait.", "You open door.", "Solved. Score 1.000"):
        assert words in shown


def test_out_of_turns(monkeypatch: Any, capsys: Any) -> None:
    _, shown, _ = play(monkeypatch, capsys, "Door-v0", "2\n2\n2\n")
    assert "[3/3] >" in shown and "Out of turns. Not solved. Score 0.000" in shown


@pytest.mark.parametrize("typed", ["", "2\n", ":quit\n", "\n\n:q\n"])
def test_leaving_early_is_no_error(monkeypatch: Any, capsys: Any, typed: str) -> None:
    code, shown, said = play(monkeypatch, capsys, "Door-v0", typed)
    assert code == 0 and "Left before the end." in shown and said == ""


def test_ctrl_c_leaves(monkeypatch: Any, capsys: Any) -> None:
    def interrupt() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)
    code, shown, _ = play(monkeypatch, capsys, "Door-v0", "")
    assert code == 0 and "Left before the end." in shown


def test_tools_are_shown_and_the_expert_can_be_followed(monkeypatch: Any, capsys: Any) -> None:
    env = gymnasium.make(HOTPOT, split="test")
    env.reset(options={"task": 3})
    typed, ended = ["?", ":expert", "prose"], False
    while not ended:
        typed.append(str(env.unwrapped.expert_action()))  # type: ignore[attr-defined]
        _, _, ended, _, _ = env.step(typed[-1])
    code, shown, _ = play(monkeypatch, capsys, HOTPOT, "\n".join(typed), task="3")
    assert code == 0 and shown.count("search[query]") >= 2 and "this is not a call" in shown
    assert "Solved. Score 1.000" in shown


@pytest.mark.parametrize("typed", ["help", "?", ":help", "HELP"])
def test_asking_for_help_costs_no_turn(monkeypatch: Any, capsys: Any, typed: str) -> None:
    code, shown, _ = play(monkeypatch, capsys, "Door-v0", f"{typed}\n1\n")
    assert code == 0 and shown.count("1  open door") == 2 and "[2/3]" not in shown and "Solved." in shown


@pytest.mark.parametrize("typed", ["quit", "exit", "q", ":exit", "Quit"])
def test_leaving_needs_no_colon(monkeypatch: Any, capsys: Any, typed: str) -> None:
    code, shown, _ = play(monkeypatch, capsys, "Door-v0", f"{typed}\n")
    assert code == 0 and "Left before the end." in shown and "[2/3]" not in shown


def test_a_command_of_the_env_comes_before_ours(monkeypatch: Any, capsys: Any) -> None:
    class Helpful(DoorEnv):
        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return (*super().step(action)[:4], {"admissible_actions": ["help"]})

    gymnasium.register("Helpful-v0", entry_point=Helpful, max_episode_steps=3)
    try:
        _, shown, _ = play(monkeypatch, capsys, "Helpful-v0", "wait\nhelp\n:help\nquit\n")
        assert "You help." in shown and shown.count("Type an action") == 2
    finally:
        del gymnasium.registry["Helpful-v0"]


@pytest.mark.parametrize("env_id", [i for i, _ in environment_lines() if i.count("-") == 2 and "PaperSearch" not in i])
def test_recipes_take_native_commands(monkeypatch: Any, capsys: Any, env_id: str) -> None:
    """What is shown as possible can be typed; the form of the recipe is put around it."""
    env = gymnasium.make(env_id, split="test")
    env.reset(options={"task": 0})
    typed, ended = [], False
    while not ended:
        typed.append(str(env.unwrapped.expert_action()))  # type: ignore[attr-defined]
        _, _, ended, _, _ = env.step(reply_for(env, typed[-1]))
    code, shown, _ = play(monkeypatch, capsys, env_id, "\n".join(typed), task="0")
    assert code == 0 and "Solved. Score 1.000" in shown


@pytest.mark.parametrize(
    ("env_id", "reply"),
    [
        ("AgentR1/HotpotQA-SearchR1-v0", "<think>so</think><answer>x</answer>"),
        ("AgentR1/HotpotQA-StepPO-v0", '<tool_call>{"name": "answer", "arguments": {"answer": "x"}}</tool_call>'),
        ("AgentR1/HotpotQA-ReAct-v0", "Action: answer[x]"),
        ("AgentR1/PaperSearch-StepPO-v0", "That is all."),
        ("AgentR1/WebShop-GiGPO-v0", "<think>so</think><action>search[chair]</action>"),
        ("AgentR1/ALFWorld-StepPO-v0", '<tool_call>{"name": "env_step", "arguments": {"command": "look"}}</tool_call>'),
    ],
)
def test_recipes_take_their_own_form_too(monkeypatch: Any, capsys: Any, env_id: str, reply: str) -> None:
    _, shown, _ = play(monkeypatch, capsys, env_id, f"{reply}\n:quit\n", task="0")
    assert "Not possible" not in shown and "Invalid" not in shown
    assert "Done." in shown or "[2/" in shown


def test_a_command_is_not_taken_for_a_final_answer(monkeypatch: Any, capsys: Any) -> None:
    """Where a reply without a call ends the episode, as in the recipe of paper search."""
    _, shown, _ = play(monkeypatch, capsys, "AgentR1/PaperSearch-StepPO-v0", "search[graph]\n:quit\n", task="0")
    assert "- graph" in shown and "Done." not in shown


def test_what_is_no_command_is_said_in_the_words_of_the_recipe(monkeypatch: Any, capsys: Any) -> None:
    _, shown, _ = play(monkeypatch, capsys, "AgentR1/HotpotQA-SearchR1-v0", "hello\n", task="0")
    assert "there is no <search>...</search>" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        ("AgentR1/Nothing-v0", {}, "Nothing"),
        ("CartPole-v1", {}, "CartPole-v1 takes no text: its actions are in Discrete(2)"),
        ("HotpotQA-v0", {}, "Did you mean: `AgentR1/HotpotQA-v0`"),
        ("alfworld", {}, "Did you mean: `AgentR1/ALFWorld-v0`"),
        ("AgentR1/HotpotQA", {}, "No registered env with id: AgentR1/HotpotQA. Did you mean: `AgentR1/HotpotQA-v0`"),
        ("AgentR1/WebShopp-v0", {}, "Did you mean: `WebShop`?"),
        (HOTPOT, {"split": "nope"}, "split must be one of"),
        (HOTPOT, {"task": "99999"}, "99999"),
        (HOTPOT, {"task": "no-such-task"}, "no task 'no-such-task'"),
        (HOTPOT, {"env_kwargs": "[1]"}, "--env-kwargs must be a JSON object"),
        (HOTPOT, {"env_kwargs": "{"}, "--env-kwargs must be a JSON object"),
        (HOTPOT, {"env_kwargs": '{"colour": 1}'}, "colour"),
    ],
)
def test_bad_arguments_are_explained(
    monkeypatch: Any, capsys: Any, env: str, options: dict[str, Any], words: str
) -> None:
    code, _, said = play(monkeypatch, capsys, env, "", **options)
    assert code == 2 and words in said and "Traceback" not in said


def test_a_terminal_gets_no_control_characters_and_no_half_characters(
    monkeypatch: Any, capsys: Any, tmp_path: Any
) -> None:
    class Loud(DoorEnv):
        def step(self, action: str) -> Any:
            return "\x1b[2J \ud800 open", 1.0, True, False, {"invalid_action": "\x07why"}

    gymnasium.register("Loud-v0", entry_point=Loud)
    try:
        code, shown, _ = play(monkeypatch, capsys, "Loud-v0", "wait\n")
    finally:
        del gymnasium.registry["Loud-v0"]
    assert code == 0 and "\N{REPLACEMENT CHARACTER}[2J \N{REPLACEMENT CHARACTER} open" in shown
    assert "\x1b[2J" not in shown and "\x07" not in shown
    assert "Done. Solved." in shown  # the same rule as everywhere: ended by the task with a positive return


def test_a_broken_contract_is_said_in_words(monkeypatch: Any, capsys: Any) -> None:
    class Broken(DoorEnv):
        def step(self, action: str) -> Any:
            return None, 1.0, True, False, {}

    gymnasium.register("Broken-v0", entry_point=Broken)
    try:
        code, _, said = play(monkeypatch, capsys, "Broken-v0", "wait\n")
    finally:
        del gymnasium.registry["Broken-v0"]
    assert code == 2 and "Broken-v0.step() returned observation = None" in said
