"""The scripts of `benchmarks/`, to be run in small sizes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load_benchmark(name: str) -> ModuleType:
    """A benchmark as a module; skips the test where there are none, as beside an installed package."""
    path = FOLDER / f"{name}.py"
    if not path.is_file():
        pytest.skip("there are no benchmarks beside an installed package")
    spec = importlib.util.spec_from_file_location(f"{name}_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
