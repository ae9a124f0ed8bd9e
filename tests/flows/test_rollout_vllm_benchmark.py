"""What the comparison with vLLM in both trainers judges; it runs where vLLM is."""

import sys

import pytest

from tests.helpers.benchmarks import FOLDER, load_benchmark


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))  # it imports the other comparison
    return load_benchmark("rollout_vllm")


@pytest.mark.parametrize(("equal", "ragged", "status"), [(1.2, 0.5, 0), (1.34, 0.93, 0), (1.19, 3.0, 1)])
def test_equal_replies_alone_are_judged_and_that_is_said(benchmark, equal, ragged, status):
    found, said = benchmark.judge(equal, ragged)
    assert found == status and said.startswith("missed" if status else "bar met") and "not judged" in said


def test_a_single_step_has_no_median_and_is_refused(benchmark, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rollout_vllm.py", "--steps", "1"])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 2 and "take two or more" in capsys.readouterr().err
