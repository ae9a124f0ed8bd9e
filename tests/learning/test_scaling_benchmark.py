"""The benchmark of growth runs, in a small size, and knows what grows faster than the work."""

from __future__ import annotations

from tests.helpers.benchmarks import load_benchmark


def test_it_measures_and_judges(monkeypatch, capsys):
    benchmark = load_benchmark("scaling")
    settings = [benchmark.Setting(4, turns, 8) for turns in (2, 4)]
    monkeypatch.setattr(benchmark, "BAR", 100.0)
    assert benchmark.series(settings, lambda setting: setting.turns, "turns", "turn")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows if row and row[0].isdigit()] == ["2", "4"]

    costs = iter([benchmark.Cost(1.0, 1.0, 1.0, 100.0, 10.0, 10.0), benchmark.Cost(2.0, 2.0, 9.0, 400.0, 20.0, 20.0)])
    monkeypatch.setattr(benchmark.Setting, "measure", lambda self: next(costs))
    monkeypatch.setattr(benchmark, "BAR", 1.3)
    assert not benchmark.series(settings, lambda setting: setting.turns, "turns", "turn")  # the peak: twice a turn
    assert "peak 2.00" in capsys.readouterr().out
