"""The command `agent-r1 recipes`."""

from __future__ import annotations

import sys

from rich.console import Console

from agent_r1_trainer.extras import explain_missing

__all__ = ["recipes_command"]


def recipes_command(name: str | None, algorithm: str | None) -> int:
    """List the shipped recipes, or print one.

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

    from agent_r1_trainer.train.recipes import find_recipe, load_recipe

    values = load_recipe(find_recipe(name), algorithm=algorithm)
    sys.stdout.write(f"# {name}, with all that it extends; `agent-r1 train --config FILE.yaml` runs a copy.\n")
    yaml.safe_dump(values, sys.stdout, sort_keys=False, allow_unicode=True, width=120)
