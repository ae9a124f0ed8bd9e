"""Which lower bounds of pyproject.toml an environment is not at: those are not tested there.

``python -m tests.helpers.floors`` says so. One that something else has outgrown is to be raised; torch is what TORCH
names, since not every build is to be had everywhere.
"""

import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

EXTRAS = ("train", "test", "serve")


def floors(project: dict[str, Any]) -> Iterator[tuple[str, Version]]:
    """Yield the packages of the environment and environments' extras that have a lower bound, with it."""
    rows = [*project["dependencies"], *(row for extra in EXTRAS for row in project["optional-dependencies"][extra])]
    for requirement in map(Requirement, dict.fromkeys(rows)):
        for bound in requirement.specifier:
            if bound.operator == ">=":
                yield requirement.name, Version(bound.version)


def above(project: dict[str, Any], installed: Callable[[str], str]) -> dict[str, str]:
    """Return what is to be said of each package whose installed version is not its lower bound."""
    found = {name: (Version(Version(installed(name)).public), floor) for name, floor in floors(project)}
    return {
        name: f"{name} is {version} here: its lower bound, {floor}, is not tested"
        for name, (version, floor) in found.items()
        if version != floor
    }


if __name__ == "__main__":
    text = Path("pyproject.toml").read_text(encoding="utf-8")
    said = above(tomllib.loads(text)["project"], metadata.version)
    print("\n".join(said.values()) or "every package is at its lower bound")
