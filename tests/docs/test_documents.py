"""The code in README, CONTRIBUTING and docs/ runs, and what they say of files and settings is so."""

import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import gymnasium
import pytest

from agent_r1_trainer import credit

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS_MORE = {  # blocks that need what a test has not: a large corpus, weights from a hub
    "wiki.jsonl": "OkapiRetriever(iter_corpus",
    "Qwen/Qwen3-1.7B": 'model="Qwen',
}


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def light(page: Path) -> list[str]:
    return [b for b in blocks(page) if not any(mark in b for mark in NEEDS_MORE.values()) and "StepPOTrainer" not in b]


@pytest.mark.parametrize("page", [p for p in PAGES if light(p)], ids=lambda p: p.name)
def test_python_blocks_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(light(page))
    if "agent_r1_trainer" in code:  # torch takes long to import, and is imported here already
        monkeypatch.chdir(tmp_path)
        # What a block registers is gone after it, as it would be with a process of its own.
        monkeypatch.setattr(credit.ESTIMATORS, "_table", dict(credit.ESTIMATORS._table))
        known = set(gymnasium.registry)
        exec(compile(code, page.name, "exec"), {})
        for name in set(gymnasium.registry) - known:
            del gymnasium.registry[name]
        return
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_training_block_of_the_readme_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = [block for block in blocks(ROOT / "README.md") if "StepPOTrainer" in block]
    assert "max_steps=100" in code
    code = code.replace("max_steps=100", "max_steps=4, rollout_batch_size=4, save_strategy='no', use_cpu=True")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["trainer"].state.global_step == 4


def test_the_layout_is_that_of_the_folders() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Layout", 1)[1].split("\n## ", 1)[0]
    packages = re.findall(r"^    (?:wrappers/)?(agent_r1_\w+)/ .*\n((?:        .*\n)+)", text, re.MULTILINE)
    assert len(packages) == 3
    for package, lines in packages:
        place = ROOT / "wrappers" / package if package == "agent_r1_wrappers" else ROOT / package
        named = set(re.findall(r"(\w+)/", lines))
        there = {path.parent.name for path in place.glob("*/__init__.py")}
        assert named == there, (package, named ^ there)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_python_block_compiles(page: Path) -> None:
    for block in blocks(page):
        compile(block, page.name, "exec")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda p: p.name)
def test_files_and_modules_that_are_named_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("docs/_build", "")  # which Sphinx makes
    named = re.findall(r"(?<![\w/.])(?:agent_r1_\w+|wrappers|tests|docs|examples|benchmarks|scripts)/[\w./]*\w", text)
    links = re.findall(r"\]\(([\w./]+\.md)\)", text)
    assert [name for name in named if not any((ROOT / place / name).exists() for place in ("", "wrappers"))] == []
    assert [name for name in links if not (page.parent / name).exists()] == []
    for name in re.findall(r"\bagent_r1_(?:envs|wrappers|trainer)(?:\.\w+)+", text):
        resolve_name(name)


def test_training_page_lists_every_setting_with_its_default() -> None:
    import dataclasses

    from agent_r1_trainer import StepPOConfig

    files = "steppo_config.py", "generation/vllm_settings.py"
    source = "".join((ROOT / "agent_r1_trainer" / name).read_text(encoding="utf-8") for name in files)
    page = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("training.md", "vllm.md"))
    own = [f for f in dataclasses.fields(StepPOConfig) if re.search(rf"^    {f.name}: ", source, re.MULTILINE)]
    rows = [f"| `{f.name}` | `{f.default!r}` | {f.metadata['help']} |" for f in own]
    assert len(rows) > 40 and [row for row in rows if row not in page] == []


def test_the_tables_of_environments_are_complete() -> None:
    from agent_r1_trainer.commands.envs import environment_lines

    text = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "docs" / "environments.md").read_text("utf-8")
    for env_id, _ in environment_lines():
        assert env_id in text or f"`-{env_id.split('-', 1)[1]}`" in text
