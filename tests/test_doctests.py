"""The examples in docstrings."""

import doctest
import importlib
import pkgutil

import agent_r1_wrappers
import pytest

import agent_r1_envs
import agent_r1_trainer

PACKAGES = (agent_r1_envs, agent_r1_wrappers, agent_r1_trainer)
MODULES = sorted(
    module.name
    for package in PACKAGES
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not module.name.endswith("__main__")
) + [package.__name__ for package in PACKAGES]  # their classes may say that they are the package's


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
