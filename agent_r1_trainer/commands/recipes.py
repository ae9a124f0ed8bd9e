"""The command `agent-r1 recipes`."""

from __future__ import annotations

import sys
import textwrap
from typing import Any

from rich.console import Console

from agent_r1_trainer.extras import explain_missing

__all__ = ["recipes_command"]


def recipes_command(name: str | None, algorithm: str | None) -> int:
    """List the shipped files of settings, or print one.

    Args:
        name: Of a recipe, or a file that ends in `.yaml`; None lists the names.
        algorithm: Instead of the recipe's.

    Returns:
        The exit status; 2 if there is no such recipe or algorithm.
    """
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        if name is None:
            _list(Console(highlight=False, soft_wrap=True))
        else:
            _print(name, algorithm)
        return 0
    except (ValueError, OSError, ImportError) as error:
        if isinstance(error, ModuleNotFoundError):
            error = explain_missing(error, "recipes")
        say.print(f"agent-r1 recipes: {error}", style="red", markup=False)
        return 2


def _list(console: Console) -> None:
    from agent_r1_trainer.train.recipes import recipe_names, recipe_summary

    names = recipe_names() + recipe_names(bases=True)
    width = max(map(len, names))
    for name in names:
        console.print(f"{name:<{width}}  {recipe_summary(name)}", markup=False)


def _print(name: str, algorithm: str | None) -> None:
    import yaml

    from agent_r1_trainer.algorithms import algorithm_settings, fill_in
    from agent_r1_trainer.train.recipes import find_recipe, load_recipe

    def text(settings: dict[str, Any]) -> str:
        return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=120)

    values = load_recipe(find_recipe(name), algorithm=algorithm, fill=False)
    chosen = {key: values.pop(key) for key in ("algorithm",) if values.get(key) is not None}
    sys.stdout.write(f"# {name}, with all that it extends; `agent-r1 train --config FILE.yaml` runs a copy.\n")
    if chosen:
        # Comments, so that in a copy another algorithm can be named: settings would win over those of the algorithm.
        refined = (values.get("by_algorithm") or {}).get(chosen["algorithm"]) or {}
        filled = algorithm_settings(chosen["algorithm"], fill_in(values, refined))
        own = text({key: value for key, value in filled.items() if key not in values})
        sys.stdout.write(text(chosen) + textwrap.indent(f"which sets, unless the lines below do:\n{own}", "# "))
    sys.stdout.write(text(values))
