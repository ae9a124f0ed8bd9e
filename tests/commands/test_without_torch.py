"""The command line in an environment where nothing of the training stack can be imported."""

import subprocess
import sys
from pathlib import Path

import pytest

BLOCKER = """
import sys

class Blocker:
    heavy = {"torch", "transformers", "trl", "accelerate", "peft", "datasets", "safetensors", "pyarrow", "pandas"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.heavy:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def run(code: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKER + code, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)


def agent_r1(*arguments: str, stdin: str = "") -> str:
    done = run("from agent_r1_trainer.cli import main; main()", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_envs() -> None:
    assert "AgentR1/HotpotQA-v0" in agent_r1("envs")


def test_play() -> None:
    assert "Left before the end" in agent_r1("play", "AgentR1/HotpotQA-v0", stdin="search[river]\n")


@pytest.mark.parametrize("agent", ["random", "expert"])
def test_bench(agent: str, tmp_path: Path) -> None:
    out = tmp_path / agent
    shown = agent_r1("bench", "--env", "AgentR1/HotpotQA-v0", "--agent", agent, "--episodes", "5", "--out", str(out))
    assert "success" in shown and len((out / "episodes.jsonl").read_text().splitlines()) == 5


def test_demos(tmp_path: Path) -> None:
    out = tmp_path / "d.jsonl"
    shown = agent_r1("demos", "--env", "AgentR1/HotpotQA-v0", "--episodes", "2", "--out", str(out))
    assert "2 episodes, 2 solved" in shown and '"completion"' in out.read_text()


def test_public_names_say_what_to_install() -> None:
    done = run(
        "import agent_r1_trainer as t; print(t.StopReason.TERMINATED, 'StepPOTrainer' in dir(t)); t.StepPOConfig"
    )
    assert done.stdout.split() == ["terminated", "True"]
    assert "ImportError: StepPOConfig needs" in done.stderr and "pip install 'agent-r1[train]'" in done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    import agent_r1_trainer

    with pytest.raises(AttributeError, match="no attribute 'PPO'"):
        agent_r1_trainer.PPO  # noqa: B018
