"""The examples run as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
ARGUMENTS = {"train_steppo": ["--steps", "4", "--episodes", "4", "--out", "run"]}
SAYS = {
    "custom_tool_env": "success True",
    "random_agent": "success",
    "train_steppo": "eval_success",
    "vector_evaluation": "40 tasks, mean score 1.000",
    "wrapper_stack": "--- reward 1.0, success True",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(example), *ARGUMENTS.get(example.stem, [])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert SAYS[example.stem] in done.stdout


def test_custom_env_passes_the_checks_of_gymnasium() -> None:
    code = "import custom_tool_env, gymnasium; from gymnasium.utils.env_checker import check_env; "
    code += "check_env(gymnasium.make('Examples/Till-v0').unwrapped, skip_render_check=True)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=EXAMPLES[0].parent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
