"""The examples run as they are."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
SAYS = {
    "custom_tool_env": "success True",
    "random_agent": "success",
    "vector_evaluation": "40 tasks, mean score 1.000",
    "wrapper_stack": "--- reward 1.0, success True",
}
IMPORT_TORCH = {  # which takes long, and is imported here already
    "steppo_in_one_page": (["2", "4"], "rollout 1: reward"),
    "train_steppo": (["--steps", "4", "--episodes", "4", "--out", "run"], "eval_success"),
}


def test_these_are_all_examples() -> None:
    assert {path.stem for path in EXAMPLES} == SAYS.keys() | IMPORT_TORCH.keys()


@pytest.mark.parametrize("name", SAYS)
def test_example(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout


@pytest.mark.parametrize("name", IMPORT_TORCH)
def test_training_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, said = IMPORT_TORCH[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert said in capsys.readouterr().out


def test_custom_env_passes_the_checks_of_gymnasium() -> None:
    code = "import custom_tool_env, gymnasium; from gymnasium.utils.env_checker import check_env; "
    code += "check_env(gymnasium.make('Examples/Till-v0').unwrapped, skip_render_check=True)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=FOLDER, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
