"""The benchmark of slow environments runs, in a small size, and fails where they are waited for too long."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers.benchmarks import FOLDER, load_benchmark


@pytest.mark.slow
def test_it_measures_every_kind_of_worker():
    load_benchmark("slow_environments")  # or skip
    sizes = ["--episodes", "8", "--seconds", "0.1", "--turns", "2", "--bar", "60"]
    root = FOLDER.parent
    run = subprocess.run(
        [sys.executable, str(FOLDER / "slow_environments.py"), *sizes],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'wrappers'}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    rows = {line[:10].strip(): [float(x) for x in line[10:].split()] for line in run.stdout.splitlines()[2:]}
    assert list(rows) == ["in step", "inline", "threads", "processes"]
    assert min(rows["in step"]) >= 8 * 0.1 * 2 and all(len(row) == 2 for row in rows.values())
    assert max(rows["threads"][1], rows["processes"][1]) < min(rows["in step"])


@pytest.mark.parametrize(("bar", "status"), [("0.5", 0), ("0.1", 1)])
def test_it_judges_workers_alone(bar, status, monkeypatch):
    benchmark = load_benchmark("slow_environments")
    found = {"in step": (9.0, 9.0), "inline": (9.0, 9.0), "threads": (9.0, 0.05), "processes": (9.0, 0.3)}
    monkeypatch.setattr(benchmark, "measure", lambda kind, *sizes: found[kind])
    assert benchmark.main(["--bar", bar]) == status
