"""What a user sees: help, errors in words, exit statuses."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agent_r1_trainer.cli import app
from agent_r1_trainer.commands.envs import environment_lines

HOTPOT = "AgentR1/HotpotQA-v0"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_help_names_the_commands() -> None:
    shown = run("--help").output
    assert all(command in shown for command in ("envs", "play", "bench", "train", "demos"))


def test_version() -> None:
    from importlib.metadata import version

    shown = run("--version")
    assert shown.exit_code == 0 and shown.output.strip() == version("agent-r1")


def test_demos(tmp_path: Path) -> None:
    out = str(tmp_path / "d.jsonl")
    asked = ["demos", "--env", HOTPOT, "--episodes", "4", "--recipe", "native", "--out", out]
    done = run(*asked)
    assert done.exit_code == 0 and "4 episodes, 4 solved, " in done.output and out in done.output
    assert run(*asked).exit_code == 2 and "go on with --resume" in run(*asked).output
    assert "5 episodes, 5 solved" in run(*asked, "--resume", "--episodes", "5").output
    other = run(*asked, "--resume", "--env", "AgentR1/HotpotQA-ReAct-v0")
    assert other.exit_code == 2 and "made with other settings" in other.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--env", "HotpotQA-v0"], "Did you mean: `AgentR1/HotpotQA-v0`"),
        (["--env", HOTPOT, "--recipe", "x"], "recipe must be 'default' or 'tools' or 'native' or 'none', got 'x'"),
        (["--env", HOTPOT, "--episodes", "0"], "episodes must be at least 1"),
        (["--env", HOTPOT, "--split", "dev"], "split must be one of train, validation, test"),
    ],
)
def test_demos_explains_what_is_wrong(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run("demos", *arguments, "--out", str(tmp_path / "d.jsonl"))
    assert done.exit_code == 2 and words in done.output and done.exception.__class__ is SystemExit


def test_envs_prints_one_line_each() -> None:
    lines = run("envs").output.splitlines()
    assert len(lines) == len(environment_lines()) and any(line.startswith(HOTPOT) for line in lines)
    assert all("No description" not in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--env", HOTPOT, "--agent", "gpt"],
            "unknown agent 'gpt'; expected random, expert, hf:MODEL, vllm:MODEL or openai:MODEL@URL",
        ),
        (["--env", HOTPOT, "--agent", "openai:m"], "'openai:m' has no address of a server: say openai:MODEL@URL"),
        (["--env", HOTPOT, "--agent", "openai:m@host:8000/v1"], "a URL such as http://127.0.0.1:8000/v1"),
        (["--env", "AgentR1/Hotpot-v0", "--agent", "random"], "Did you mean"),
        (["--env", "Hotpot", "--agent", "random"], "Did you mean: `AgentR1/HotpotQA-v0`"),
        (
            ["--env", HOTPOT, "--agent", "random", "--recipe", "x"],
            "--recipe must be one of default, tools, native, none",
        ),
        (["--env", HOTPOT, "--agent", "random", "--recipe", "native"], "the agent random takes none"),
        (["--env", "no_such_module:X-v0", "--agent", "random"], "no_such_module"),
        (["--env", HOTPOT, "--agent", "random", "--split", "dev"], "split must be one of train, validation, test"),
        (["--env", HOTPOT, "--agent", "random", "--env-kwargs", "{'a': 1}"], "--env-kwargs must be a JSON object"),
        (["--env", HOTPOT, "--agent", "random", "--env-kwargs", '{"topk": 1}'], "topk"),
        (["--env", HOTPOT, "--agent", "random", "--episodes", "0"], "episodes must be at least 1"),
        (["--env", HOTPOT, "--agent", "random", "--concurrency", "0"], "concurrency must be at least 1"),
        (["--env", HOTPOT, "--agent", "openai:m@http://127.0.0.1:1/v1", "--recipe", "x"], "--recipe must be"),
        (["--env", HOTPOT, "--agent", "openai:m@http://127.0.0.1:1/v1", "--timeout", "0"], "timeout > 0"),
    ],
)
def test_bench_explains_what_is_wrong(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run("bench", *arguments, "--out", str(tmp_path / "run"))
    assert done.exit_code == 2 and words in done.output
    assert "Traceback" not in done.output and done.exception.__class__ is SystemExit


def test_bench_refuses_a_file_as_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    done = run("bench", "--env", HOTPOT, "--agent", "random", "--episodes", "1", "--out", str(tmp_path / "file"))
    assert done.exit_code == 2 and "file" in done.output


def test_bench_says_what_failed(tmp_path: Path) -> None:
    agent = "openai:m@http://127.0.0.1:1/v1"
    done = run(
        "bench", "--env", HOTPOT, "--agent", agent, "--episodes", "2", "--retries", "0", "--out", str(tmp_path / "run")
    )
    assert done.exit_code == 1  # not one episode was played
    assert "2 episodes failed and count as score 0" in done.output and "ConnectError" in done.output


def test_bench_of_a_recipe(tmp_path: Path) -> None:
    env = "AgentR1/HotpotQA-ReAct-v0"
    done = run("bench", "--env", env, "--agent", "expert", "--episodes", "10", "--out", str(tmp_path / "run"))
    assert done.exit_code == 0 and "│ success      │ 1.000 │" in done.output


def test_an_installed_command_finds_modules_of_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "agent-r1"
    command.write_text("from agent_r1_trainer.cli import main\nmain()\n", encoding="utf-8")
    (tmp_path / "mine_here.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('MineHere-v0', 'agent_r1_envs.hotpotqa.env:HotpotQAEnv', kwargs={'split': 'test'})\n",
        encoding="utf-8",
    )
    arguments = [sys.executable, "-P", str(command), "play", "mine_here:MineHere-v0"]
    done = subprocess.run(
        arguments, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120
    )
    assert done.returncode == 0 and "Left before the end." in done.stdout, done.stderr
