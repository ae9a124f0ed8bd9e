"""The benchmark of updates runs, in a small size, and reports what the trainer measures."""

from __future__ import annotations

from tests.helpers.benchmarks import load_benchmark


def test_it_reports_tokens_padding_and_gradients(monkeypatch, capsys):
    benchmark = load_benchmark("update")
    monkeypatch.setattr(benchmark, "TURNS", 4)
    monkeypatch.setattr(benchmark, "SPEED_BAR", 0.0)
    assert benchmark.merging(2, 1, 64, 1)  # tokens computed once, and the same gradient
    benchmark.packing(64, 1, count=4, turns=3)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    unmerged, merged = (next(row for row in rows if row[:1] == [name]) for name in ("unmerged", "merged"))
    assert float(unmerged[2]) > float(unmerged[1]) > 1.5 and float(merged[1]) == 1.0 <= float(merged[2])
    assert sum(row[:2] in (["by", "length"], ["as", "collected"]) for row in rows) == 2
