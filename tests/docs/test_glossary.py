"""The glossary of CONTRIBUTING.md names files and definitions that there are, and the code keeps to its words."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| ([\w, ]+) \| .+ \| `([\w/.]+)`: `(\w+)` \|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE
)


def defined(path: Path) -> set[str]:
    """Names that a file defines at its top level."""
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def test_the_glossary_is_read_whole_and_has_each_word_once() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## Glossary", 1)[1].split("\n## ", 1)[0]
    assert len(ROWS) == sum(line.startswith("|") for line in text.splitlines()) - 2 > 0
    words = [word for row in ROWS for word in row[0].split(", ")]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(("word", "path", "name"), ROWS, ids=lambda value: value.replace("/", "."))
def test_a_word_lives_where_the_glossary_says(word: str, path: str, name: str) -> None:
    assert name in defined(ROOT / path)


def test_a_world_is_the_state_of_an_episode() -> None:
    files = sorted((ROOT / "agent_r1_envs").rglob("*.py"))
    makers = [path for path in files if "generator" in path.parts or path.stem in ("generator", "encyclopedia")]
    assert [path for path in makers if "World" in defined(path)] == []


def test_curricula_and_environments_share_no_name_for_who_chooses_a_task() -> None:
    packages = (ROOT / "agent_r1_envs", ROOT / "agent_r1_trainer")
    files = [path for package in packages for path in package.rglob("*.py") if "TaskSampler" in defined(path)]
    assert files == [ROOT / "agent_r1_trainer" / "curriculum" / "sampler.py"]
