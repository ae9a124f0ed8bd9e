"""The list of environments, from Gymnasium's registry."""

from __future__ import annotations

import gymnasium
from agent_r1_wrappers.recipes import RECIPES

from agent_r1_envs import ENVIRONMENTS

__all__ = ["NAMESPACE", "environment_lines", "print_environments"]

NAMESPACE = "AgentR1"


def environment_lines() -> list[tuple[str, str]]:
    """Return id and description of every environment of the namespace, recipes included, in order of id."""
    summaries = {e.id: e.summary + (f" Needs the extra '{e.extra}'." if e.extra else "") for e in ENVIRONMENTS}
    summaries |= {recipe.id: recipe.summary for recipe in RECIPES}
    ids = sorted(i for i, spec in gymnasium.registry.items() if spec.namespace == NAMESPACE)
    return [(i, summaries.get(i, "No description.")) for i in ids]


def print_environments() -> None:
    """Print the list, one line each."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    lines = environment_lines()
    width = max(len(i) for i, _ in lines)
    for env_id, description in lines:
        console.print(f"{env_id:<{width}}  {description}", markup=False)
