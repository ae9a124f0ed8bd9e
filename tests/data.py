"""Where the tests find real data: `AGENT_R1_TEST_DATA`, or the folder `shared/data` beside the checkout."""

import os
from pathlib import Path

import pytest


def real_data(name: str) -> Path:
    """Return the folder of real data called ``name``, or skip the test with the reason."""
    root = os.environ.get("AGENT_R1_TEST_DATA")
    folder = (Path(root) if root else Path(__file__).parents[2] / "shared" / "data") / name
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set AGENT_R1_TEST_DATA to the folder that holds '{name}'")
    return folder
