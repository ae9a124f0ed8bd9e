"""These tests need the extra `alfworld` and belong to `make test-alfworld`: elsewhere they are not collected."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("alfworld") and find_spec("textworld") else ["test_*.py"]


@pytest.fixture(scope="session")
def original():
    """TextWorld, as it is."""
    from tests.alfworld_textworld.original import Original

    return Original()


@pytest.fixture
def quick(original, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """TextWorld, which remembers what it has parsed and translated."""
    from tests.alfworld_textworld.original import remember

    remember(monkeypatch)
    return original
