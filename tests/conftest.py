"""Settings of the whole suite."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Wall-clock limits of hypothesis say how busy the machine is, not whether the code is right.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# A shell starts background jobs with Ctrl-C ignored, and the processes that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With CI=true a skipped test is a failure: nobody would notice that it never runs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why a run without failures failed."""
    skipped = terminalreporter.stats.get("skipped", [])
    if os.environ.get("CI") == "true" and skipped:
        terminalreporter.write_line(f"CI=true: {len(skipped)} skipped tests count as failures", red=True)
