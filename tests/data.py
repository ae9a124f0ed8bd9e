"""Where the tests find real data: `AGENT_R1_TEST_DATA`, or the folder `shared/data` beside the checkout.

`AGENT_R1_TEST_DATA=none` says that there are none: the tests that need them are skipped, as they are where the folder
is missing, and with CI=true that is no failure.
"""

import os
from pathlib import Path

import pytest

NO_DATA = "no real data at"
"""How the reason begins for which a test without data is skipped."""


def real_data(name: str) -> Path:
    """Return the folder of real data called ``name``, or skip the test with the reason."""
    root = os.environ.get("AGENT_R1_TEST_DATA")
    folder = (Path(root) if root else Path(__file__).parents[2] / "shared" / "data") / name
    if not folder.is_dir():
        pytest.skip(f"{NO_DATA} {folder}; set AGENT_R1_TEST_DATA to the folder that holds '{name}'")
    return folder
