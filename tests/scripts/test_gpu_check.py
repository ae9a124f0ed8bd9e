"""The check for GPUs runs on a CPU, with a tiny model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_check.py"


@pytest.fixture(scope="module")
def script():
    if not SCRIPT.is_file():
        pytest.skip("there are no scripts beside an installed package")
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_checks_a_tiny_model(script, tmp_path, capsys):
    page = tmp_path / "gpu.md"
    page.write_text(
        "Before.\n\n<!-- begin: scripts/gpu_check.py -->\nold\n<!-- end: scripts/gpu_check.py -->\nAfter.\n"
    )
    assert script.main(["--models", "tiny", "--device", "cpu", "--write", str(page)]) == 0
    printed = capsys.readouterr().out
    found = {cells[1].strip(): cells[2].strip() for line in printed.splitlines() if (cells := line.split("|")[1:-1])}
    assert float(found["float32"]) == 0.0 < float(found["bf16"])  # the same machine and numbers, then coarser ones
    assert float(found["first_max"]) == 0.0
    assert all(float(found[name].replace(",", "")) > 0 for name in ("update tokens/s", "transformers tokens/s"))
    assert float(found["estimated GiB"]) > 0
    text = page.read_text()
    assert text.startswith("Before.") and text.endswith("After.\n") and printed.strip() in text and "old" not in text


def test_what_there_is_no_time_for_is_said(script):
    rows, good = script.check(["tiny"], "cpu", script.Work(4, 2, 16, 256, 4, 8), 0.0)
    assert good and {row[2] for row in rows} == {"left out: no time"} and len(rows) == 4


def test_operations_of_a_known_model(script):
    # 494 million weights: 6 of each, and 6 x 24 x 896 a token of attention.
    assert script.training_flops("0.5B", 1000) == pytest.approx(6 * 494.0e6 + 6 * 24 * 896 * 1000, rel=0.01)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_what_to_try(script, capsys):
    with pytest.raises(SystemExit):
        script.main(["--device", "cuda"])
    assert "--device cpu --models tiny" in capsys.readouterr().err
