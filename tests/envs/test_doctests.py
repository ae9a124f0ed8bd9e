"""The examples in the docstrings run as they are written."""

import doctest
import importlib

import pytest

MODULES = [
    "actions",
    "arguments",
    "services.endpoint",
    "services.retry",
    "services.secrecy",
    "spaces.free_text",
    "spaces.messages",
    "tasks",
    "tools.base",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    failures, attempts = doctest.testmod(importlib.import_module(f"agent_r1_envs.{name}"))
    assert attempts and not failures
