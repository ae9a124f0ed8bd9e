"""Games for the tests: official ones where they are at hand, and small ones written down by hand."""

import json
from pathlib import Path
from typing import Any

from agent_r1_envs.alfworld.game.dialects import recognise
from tests.data import real_data

SPLITS = ("valid_seen", "valid_unseen")


def fixture_files(dialect: str = "2.1.1") -> list[Path]:
    """Return the 36 official games in a dialect, sorted."""
    root = real_data("alfworld") / ("json_2.1.3_dialect/json_2.1.1" if dialect == "2.1.3" else "json_2.1.1")
    return sorted(root.rglob("game.tw-pddl"))


def raw_game(file: Path) -> dict[str, Any]:
    return json.loads(file.read_bytes())


def rules(dialect: str = "2.1.3") -> tuple[str, str]:
    """Return domain and grammar of a dialect, with ``UNKNOWN GOAL.`` in place of the task."""
    raw = raw_game(fixture_files(dialect)[0])
    _, task = recognise(raw["pddl_domain"], raw["grammar"])
    return raw["pddl_domain"], raw["grammar"].replace(task, "UNKNOWN GOAL.")
