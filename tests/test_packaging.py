"""What an installed copy must hold."""

import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from tests.helpers.floors import above, floors

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "agent_r1_envs", ROOT / "agent_r1_trainer", ROOT / "wrappers" / "agent_r1_wrappers"]


def test_data_files_of_the_packages_are_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["*"]
    files = [p for package in PACKAGES for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    left_out = [p for p in files if p.suffix != ".py" and not any(fnmatch(p.name, pattern) for pattern in patterns)]
    assert left_out == []
    assert all((package / "py.typed").exists() for package in PACKAGES)


def test_a_lower_bound_that_an_environment_is_not_at_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest = {name: str(floor) for name, floor in floors(project)}
    assert {"numpy", "torch", "trl", "pytest", "uvicorn"} <= lowest.keys()
    assert above(project, lowest.__getitem__) == {}
    higher = {**lowest, "torch": "99.1+cpu", "numpy": "99.2"}
    assert above(project, higher.__getitem__).keys() == {"torch", "numpy"}
    assert above(project, higher.__getitem__)["torch"].startswith("torch is 99.1 here: its lower bound, 2.6,")


def test_no_large_file_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = listed.stdout.split("\0")[:-1]  # none in an unpacked archive
    large = [n for n in names if (ROOT / n).is_file() and (ROOT / n).stat().st_size > 2_100_000]
    assert large == []
