"""ALFWorld: household tasks in text.

``gymnasium.make("AgentR1/ALFWorld-v0")`` makes the environment; see :class:`ALFWorldEnv` for its arguments.
"""

from typing import TYPE_CHECKING

from agent_r1_envs.names import import_on_use

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

__getattr__ = import_on_use(
    __name__,
    {
        "game.engine": ["Engine"],
        "env": ["ALFWorldEnv"],
        "export": ["export_game", "export_panel"],
        "generator.generator": ["Difficulty", "generate_game"],
        "game.model": ["TASK_TYPES", "Game", "State"],
        "official.parsing": ["parse_game", "read_game_file"],
        "expert.planner": ["shortest_plan"],
        "sources": ["load_tasks"],
    },
)
