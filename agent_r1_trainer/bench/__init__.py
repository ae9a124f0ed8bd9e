"""Benchmark runs: agents, a log that survives everything, figures with intervals.

`run.BenchRun` plays what `settings.BenchSettings` ask for, an `episode` at a time, with one of the `agents`; `report`
makes figures of what its `log` holds.
"""
