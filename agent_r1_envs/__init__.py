"""Text-agent environments for Gymnasium.

Importing the package registers its environments::

    import agent_r1_envs
    import gymnasium

    env = gymnasium.make("AgentR1/HotpotQA-v0")

``gymnasium.make("agent_r1_envs:AgentR1/HotpotQA-v0")`` does both at once. Everything else is imported when it is first
used, so that the import stays cheap.
"""

from typing import TYPE_CHECKING

from agent_r1_envs.moved import resolve_moved
from agent_r1_envs.names import import_on_use
from agent_r1_envs.registration import ENVIRONMENTS, register_environments

if TYPE_CHECKING:
    from agent_r1_envs.actions import MalformedAction
    from agent_r1_envs.cache import clear_cache
    from agent_r1_envs.core import AgentEnv, Outcome, Score
    from agent_r1_envs.errors import DataError, ResetNeeded, SnapshotError, ToolError
    from agent_r1_envs.snapshots import Snapshot, restore, snapshot
    from agent_r1_envs.spaces import FreeText, Messages
    from agent_r1_envs.tasks import TaskSet
    from agent_r1_envs.tools import BaseTool, Tool, ToolEnv, ToolResult

__all__ = [
    "ENVIRONMENTS",
    "AgentEnv",
    "BaseTool",
    "DataError",
    "FreeText",
    "MalformedAction",
    "Messages",
    "Outcome",
    "ResetNeeded",
    "Score",
    "Snapshot",
    "SnapshotError",
    "TaskSet",
    "Tool",
    "ToolEnv",
    "ToolError",
    "ToolResult",
    "clear_cache",
    "restore",
    "snapshot",
]

resolve_moved()
register_environments()

__getattr__ = import_on_use(
    __name__,
    {
        "actions": ["MalformedAction"],
        "cache": ["clear_cache"],
        "core": ["AgentEnv", "Outcome", "Score"],
        "errors": ["DataError", "ResetNeeded", "SnapshotError", "ToolError"],
        "snapshots": ["Snapshot", "restore", "snapshot"],
        "spaces": ["FreeText", "Messages"],
        "tasks": ["TaskSet"],
        "tools": ["BaseTool", "Tool", "ToolEnv", "ToolResult"],
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
