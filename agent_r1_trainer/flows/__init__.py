"""Flows: how an agent and an environment make trajectories together.

`AgentEnvLoop` runs any Gymnasium environment whose observations are text, messages or token ids, all episodes in step;
`AsyncEnvLoop` does the same with environments that work side by side. `SingleStepFlow` is the case of one prompt and
one scored reply. A subclass of `AgentFlowBase` has full control of the loop.
"""

from agent_r1_trainer.flows.async_loop import AsyncEnvLoop
from agent_r1_trainer.flows.base import AgentFlowBase, Assignment, FlowTimes
from agent_r1_trainer.flows.env_loop import AgentEnvLoop
from agent_r1_trainer.flows.failures import FailurePolicy
from agent_r1_trainer.flows.progress import RolloutProgress
from agent_r1_trainer.flows.single_step import SingleStepFlow

__all__ = [
    "AgentEnvLoop",
    "AgentFlowBase",
    "Assignment",
    "AsyncEnvLoop",
    "FailurePolicy",
    "FlowTimes",
    "RolloutProgress",
    "SingleStepFlow",
]
