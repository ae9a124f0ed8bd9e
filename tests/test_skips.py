"""With CI=true a test that nobody expected to be skipped fails the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest
from tests.data import real_data

def test_data():
    real_data("no such folder")

def test_other():
    {other}
"""


@pytest.mark.parametrize(
    ("other", "data", "passes"),
    [("pass", "none", True), ("pytest.skip('why not')", "none", False), ("pass", "elsewhere", False)],
)
def test_only_tests_without_data_may_be_skipped_and_only_where_it_is_said(
    other: str, data: str, passes: bool, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS.format(other=other))
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path)]
    environ = {**os.environ, "CI": "true", "AGENT_R1_TEST_DATA": data}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == (0 if passes else 1), done.stdout
    assert ("count as failures" in done.stdout) is not passes
