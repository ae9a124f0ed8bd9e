"""Files of settings on disk: how one is found, and what it takes over from the files that it extends."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from agent_r1_envs.names import nearest
from agent_r1_trainer.algorithms import algorithm_settings, fill_in, find_algorithm, without_other_algorithm

__all__ = ["find_recipe", "load_recipe", "merge_settings", "recipe_names", "recipe_summary"]

SHIPPED = Path(__file__).parent.parent / "recipes"
"""The files of settings of this package."""

_COMPARED = ("steppo", "token_ppo", "grpo", "rloo", "reinforce_pp", "gigpo")
_OLDER: Mapping[str, tuple[str, str | None]] = {
    **{
        f"{task}_{name}": (task, name)
        for task in ("alfworld", "hotpotqa", "paper_search", "webshop")
        for name in _COMPARED
    },
    **{
        f"{task}_{name}_cpu": (run, name)
        for task, run in (("alfworld", "household"), ("hotpotqa", "demo"))
        for name in _COMPARED
    },
    **{f"tasks/{task}": (task, None) for task in ("alfworld", "hotpotqa", "paper_search", "webshop")},
    "alfworld_warm_start": ("alfworld_warm", "steppo"),
    "hotpotqa_warm_start_cpu": ("demo_warm", "steppo"),
    "household_cpu": ("household", "steppo"),
    "paper_search_steppo_cpu": ("paper_search_cpu", "steppo"),
    "webshop_steppo_cpu": ("webshop_cpu", "steppo"),
}
"""Names of files that there were, and what each is now: a file of settings, with an algorithm or with none."""

logger = logging.getLogger(__name__)

_SUFFIXES = (".yaml", ".yml")

Check = Callable[[Mapping[str, Any], str], None]


def recipe_names(*, bases: bool = False) -> list[str]:
    """Names of the shipped files of settings, sorted.

    Args:
        bases: Those that are there to be extended, such as `published/steppo`, instead of those to run.
    """
    paths = SHIPPED.rglob("*.yaml") if bases else SHIPPED.glob("*.yaml")
    names = (path.relative_to(SHIPPED).with_suffix("").as_posix() for path in paths)
    return sorted(name for name in names if not bases or "/" in name)


def find_recipe(name: str | Path, folder: Path | None = None) -> Path:
    """Find a file of settings.

    Args:
        name: A path that ends in `.yaml` or `.yml`, or the name of a shipped recipe.
        folder: What a relative path is relative to; the working directory without it.

    Raises:
        ValueError: There is no shipped recipe of that name; the nearest are named.
    """
    path = Path(name)
    if path.suffix in _SUFFIXES:
        return path if folder is None else folder / path
    if folder is None and path.is_file():
        return path
    known = [*recipe_names(), *recipe_names(bases=True), *_OLDER]
    if path.as_posix() in known:
        return SHIPPED / f"{path.as_posix()}.yaml"  # of an older name there is no file: `load_recipe` knows it
    near = dict.fromkeys(map(_newer, nearest(path.as_posix(), known)))
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `agent-r1 recipes` lists them"
    raise ValueError(f"there is no recipe {str(name)!r}{hint} (a path to a file ends in .yaml)")


def recipe_summary(name: str) -> str:
    """The first line of a shipped file's comment."""
    with (SHIPPED / f"{name}.yaml").open(encoding="utf-8") as stream:
        return stream.readline().removeprefix("#").strip()


def load_recipe(
    path: Path,
    *,
    algorithm: str | None = None,
    over: Mapping[str, Any] | None = None,
    check: Check | None = None,
    fill: bool = True,
) -> dict[str, Any]:
    """Read a file of settings, with what it extends and with its algorithm's settings.

    An older name of a recipe still works; its new form goes to the log, once.

    Args:
        path: The file.
        algorithm: Instead of the file's own, as if another file extended this one and named it.
        over: Laid over all that, as if it stood in that other file too.
        check: Called with the content of each file that is read, and its path, before they are merged.
        fill: Whether the algorithm's settings are filled in where no file says otherwise: first those that the files
            have `by_algorithm`, then its own. If not, `by_algorithm` is among the result.

    Returns:
        Plain data without `extends`; `algorithm` is among them if there is one.

    Raises:
        ValueError: A file is no mapping, extends itself, or names what does not exist.
        OSError: A file cannot be read.
    """
    older: dict[str, None] = {}
    values = _load(path, (), check, older)
    if os.environ.get("RANK", "0") == "0":
        for name in older:
            logger.warning("the recipe %s is now %s", name, _newer(name))
    if algorithm is not None:
        former = values.get("algorithm")
        values = dict(values) if former == algorithm else without_other_algorithm(algorithm, values, former)
        values["algorithm"] = algorithm
    values = _lay_over(values, over or {})
    if not fill:
        return values
    refined = values.pop("by_algorithm", None) or {}
    if values.get("algorithm") is None:
        return values
    name = values.pop("algorithm")
    return {"algorithm": name, **algorithm_settings(name, fill_in(values, refined.get(name) or {}))}


def merge_settings(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay settings over others: mappings are merged key by key, everything else is replaced.

    Inside a mapping, null takes away the key of the base (as in RFC 7396); at the top it is a value like others.
    """
    merged = dict(base)
    for key, value in over.items():
        under = base.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            kept = merge_settings(under, value)
            gone = {name for name, new in value.items() if new is None and name in under}
            merged[key] = {name: item for name, item in kept.items() if name not in gone}
        else:
            merged[key] = value
    return merged


def _load(path: Path, chain: tuple[Path, ...], check: Check | None, older: dict[str, None]) -> dict[str, Any]:
    place = path.resolve()
    if place in chain:
        way = " extends ".join(step.name for step in (*chain[chain.index(place) :], place))
        raise ValueError(f"{chain[0]}: extends goes round in a circle: {way}")
    if _is_older(path):
        return _load_older(_shipped_name(path), check, older)
    values = _read(path)
    parents = values.pop("extends", [])
    if isinstance(parents, str):
        parents = [parents]
    if not isinstance(parents, list) or not all(isinstance(parent, str) for parent in parents):
        raise ValueError(f"{path}: extends must be the name of a recipe or a path, or a list of these, got {parents!r}")
    if check is not None:
        check(values, str(path))
    try:
        if values.get("algorithm") is not None:
            find_algorithm(values["algorithm"])
    except ValueError as error:
        raise ValueError(f"{path}: algorithm: {error}") from None
    base: dict[str, Any] = {}
    for parent in parents:
        try:
            found = find_recipe(parent, path.parent)
        except ValueError as error:
            raise ValueError(f"{path}: extends: {error}") from None
        if not found.is_file() and not _is_older(found):
            raise FileNotFoundError(f"{path}: extends: there is no file {found}")
        base = _lay_over(base, _load(found, (*chain, place), check, older))
    return _lay_over(base, values)


def _load_older(name: str, check: Check | None, older: dict[str, None]) -> dict[str, Any]:
    """What stood in a file of that name: settings for one algorithm, those `by_algorithm` among them."""
    older[name] = None
    recipe, algorithm = _OLDER[name]
    values = _load(SHIPPED / f"{recipe}.yaml", (), check, older)
    refined = values.pop("by_algorithm", {})
    if algorithm is None:
        return {key: value for key, value in values.items() if key != "algorithm"}
    return fill_in(_lay_over(values, {"algorithm": algorithm}), refined.get(algorithm, {}))


def _is_older(path: Path) -> bool:
    return not path.is_file() and _shipped_name(path) in _OLDER


def _shipped_name(path: Path) -> str:
    """The name that a shipped recipe at a path has; of a path elsewhere nothing that is a name."""
    place = path.resolve()
    return place.relative_to(SHIPPED).with_suffix("").as_posix() if place.is_relative_to(SHIPPED) else ""


def _newer(name: str) -> str:
    """A recipe's name in words, in the form that it has now."""
    recipe, algorithm = _OLDER.get(name, (name, None))
    return (
        recipe
        if algorithm in (None, "steppo")
        else f"{recipe} with `algorithm: {algorithm}` or --algorithm {algorithm}"
    )


def _lay_over(base: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge; where another algorithm is named, what was set for the former one gives way."""
    former, wanted = base.get("algorithm"), values.get("algorithm")
    if former is not None and wanted is not None and former != wanted:
        base = without_other_algorithm(wanted, base, former)
    return merge_settings(base, values)


def _read(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as stream:
        try:
            values = yaml.load(stream, Loader=_Loader)  # noqa: S506  (a SafeLoader)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold settings as `name: value` lines")
    try:
        json.dumps(values)  # an anchor within itself has no end, and a date could not be noted in the run's folder
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} holds what is no plain data: {error}; put a date in quotes") from None
    return values


class _Loader(yaml.SafeLoader):
    """YAML in which 5e-4 is a number, as in JSON and Python (YAML 1.1 wants 5.0e-4), and no key stands twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse a repeated key, whose first value would be lost without a word."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (key.tag, key.value) in seen:
                why = f"the key {key.value!r} stands twice"
                raise yaml.composer.ComposerError("in a mapping", node.start_mark, why, key.start_mark)
            seen.add((key.tag, key.value))
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)
