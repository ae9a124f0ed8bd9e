"""The examples run as they are."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SAYS = {
    "custom_tool_env": "success True",
    "random_agent": "success",
    "steppo_in_one_page": "rollout 1: reward",
    "vector_evaluation": "40 tasks, mean score 1.000",
    "wrapper_stack": "--- reward 1.0, success True",
}
ARGUMENTS = {"steppo_in_one_page": ["2", "4"]}


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.stem != "train_steppo"], ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(example), *ARGUMENTS.get(example.stem, [])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert SAYS[example.stem] in done.stdout


def test_training_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train_steppo.py", "--steps", "4", "--episodes", "4", "--out", "run"])
    runpy.run_path(str(EXAMPLES[0].parent / "train_steppo.py"), run_name="__main__")
    assert "eval_success" in capsys.readouterr().out


def test_custom_env_passes_the_checks_of_gymnasium() -> None:
    code = "import custom_tool_env, gymnasium; from gymnasium.utils.env_checker import check_env; "
    code += "check_env(gymnasium.make('Examples/Till-v0').unwrapped, skip_render_check=True)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=EXAMPLES[0].parent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
