"""Benchmark runs: agents, a log that survives everything, figures with intervals."""
