"""Names in place of objects: loaded, looked up late, and compared with what was meant."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import agent_r1_envs
import agent_r1_trainer
from agent_r1_envs.names import did_you_mean, is_name, load_factory, load_name, nearest

ROOT = Path(agent_r1_envs.__file__).parents[1]
FACES = sorted(
    ".".join(path.relative_to(ROOT).parent.parts)
    for package in (agent_r1_envs, agent_r1_trainer)
    for path in Path(package.__file__).parent.rglob("__init__.py")
    if "import_on_use(" in path.read_text("utf-8")
)


def test_a_name_is_a_module_and_what_it_defines() -> None:
    assert load_name("json:dumps")([]) == "[]"
    assert load_name("json:JSONDecoder.decode")
    assert is_name("a.b:c") and not is_name("a: b") and not is_name("Question: who?") and not is_name(3)
    with pytest.raises(ValueError, match="module:name"):
        load_name("json")
    with pytest.raises(ImportError, match="has no 'nothing'"):
        load_name("json:nothing")
    with pytest.raises(ImportError):
        load_name("no_such_module:x")


def test_a_factory_that_there_is_not_is_refused_with_the_argument_and_its_forms() -> None:
    assert load_factory("builtins:dict", "oven", "'module:factory'") is dict
    for name, message in (
        ("gas", "unknown oven 'gas'; expected 'module:factory'"),
        ("builtins:", "unknown oven 'builtins:'; expected"),
        ("builtins:oven", "cannot load oven 'builtins:oven': .* has no 'oven'"),
        ("no_such_module:oven", "cannot load oven 'no_such_module:oven': No module named"),
    ):
        with pytest.raises(ValueError, match=message):
            load_factory(name, "oven", "'module:factory'")


def test_the_nearest_come_first_and_case_and_punctuation_do_not_count() -> None:
    assert nearest("learning-Rate", ["gamma", "learning_rates", "learning_rate"]) == ["learning_rate", "learning_rates"]
    assert nearest("alfworld", {"AgentR1/ALFWorld-v0": "ALFWorld", "AgentR1/WebShop-v0": "WebShop"}) == [
        "AgentR1/ALFWorld-v0"
    ]
    assert nearest("zzz", ["gamma"]) == [] and nearest("", ["gamma"]) == [] and nearest("gamma", []) == []


def test_a_hint_names_what_is_near_or_what_there_is() -> None:
    assert did_you_mean("gama", ["gamma", "lam"], otherwise="see the docs") == "; did you mean gamma?"
    assert did_you_mean("zzz", ["gamma", "lam"], otherwise="see the docs") == "; see the docs"
    assert did_you_mean("zzz", ["gamma", "lam"]) == ""
    assert did_you_mean("lamb", ["lamp", "lam"], before=": ", form=repr) == ": did you mean 'lam' or 'lamp'?"


@pytest.mark.parametrize("name", FACES)
def test_a_package_imports_on_use_what_its_type_checker_sees(name: str) -> None:
    package = importlib.import_module(name)
    assert all(getattr(package, public) is not None for public in package.__all__)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018
    tree = ast.parse(Path(package.__file__ or "").read_text("utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    bound = {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}
    assert set(package.__all__) <= imported | bound


def test_all_packages_that_import_on_use_are_looked_at() -> None:
    assert len(FACES) >= 8


def test_names_cost_the_import_of_the_package_nothing() -> None:
    heavy = ("rapidfuzz", "httpx", "agent_r1_envs.core")
    code = f"import sys, agent_r1_envs; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
