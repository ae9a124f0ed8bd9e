"""Settings of the whole suite."""

import gc
import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.data import NO_DATA

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Wall-clock limits of hypothesis say how busy the machine is, not whether the code is right.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# A shell starts background jobs with Ctrl-C ignored, and the processes that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Take what was imported out of garbage collection, which every training run calls and which looks at it all."""
    gc.freeze()


def unexpected_skips(reporter: Any) -> int:
    """With CI=true, how many skipped tests count as failures, since nobody would notice that they never run."""
    if os.environ.get("CI") != "true" or reporter is None:
        return 0
    skipped = reporter.stats.get("skipped", [])
    if os.environ.get("AGENT_R1_TEST_DATA") == "none":
        skipped = [report for report in skipped if NO_DATA not in str(report.longrepr)]
    return len(skipped)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run with tests that were not expected to be skipped."""
    if unexpected_skips(session.config.pluginmanager.get_plugin("terminalreporter")):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why a run without failures failed."""
    count = unexpected_skips(terminalreporter)
    if count:
        terminalreporter.write_line(f"CI=true: {count} skipped tests count as failures", red=True)
