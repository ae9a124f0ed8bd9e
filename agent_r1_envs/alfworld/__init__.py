"""ALFWorld: household tasks in text.

``gymnasium.make("AgentR1/ALFWorld-v0")`` makes the environment; see :class:`ALFWorldEnv` for its arguments.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_r1_envs.alfworld.env import ALFWorldEnv
    from agent_r1_envs.alfworld.expert.planner import shortest_plan
    from agent_r1_envs.alfworld.export import export_game, export_panel
    from agent_r1_envs.alfworld.game.engine import Engine
    from agent_r1_envs.alfworld.game.model import TASK_TYPES, Game, State
    from agent_r1_envs.alfworld.generator.generator import Difficulty, generate_game
    from agent_r1_envs.alfworld.official.parsing import parse_game, read_game_file
    from agent_r1_envs.alfworld.sources import load_tasks

__all__ = [
    "TASK_TYPES",
    "ALFWorldEnv",
    "Difficulty",
    "Engine",
    "Game",
    "State",
    "export_game",
    "export_panel",
    "generate_game",
    "load_tasks",
    "parse_game",
    "read_game_file",
    "shortest_plan",
]

_HOME = {
    "game.engine": ["Engine"],
    "env": ["ALFWorldEnv"],
    "export": ["export_game", "export_panel"],
    "generator.generator": ["Difficulty", "generate_game"],
    "game.model": ["TASK_TYPES", "Game", "State"],
    "official.parsing": ["parse_game", "read_game_file"],
    "expert.planner": ["shortest_plan"],
    "sources": ["load_tasks"],
}
_MODULES = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
