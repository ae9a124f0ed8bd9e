"""Flows: how an agent and an environment make trajectories together.

`AgentEnvLoop` runs any Gymnasium environment whose observations are text, messages or token ids. `SingleStepFlow` is
the case of one prompt and one scored reply. A subclass of `AgentFlowBase` has full control of the loop.
"""

from agent_r1_trainer.flows.base import AgentFlowBase, Assignment, FlowTimes
from agent_r1_trainer.flows.env_loop import AgentEnvLoop
from agent_r1_trainer.flows.single_step import SingleStepFlow

__all__ = ["AgentEnvLoop", "AgentFlowBase", "Assignment", "FlowTimes", "SingleStepFlow"]
