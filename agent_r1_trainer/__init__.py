"""Step-level reinforcement learning of language-model agents, as a TRL plugin.

Nothing heavy is imported before it is used: the command line and the benchmark run without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_r1_trainer.curriculum.sampler import GroupResult, TaskSampler
    from agent_r1_trainer.environments.mixture import MixtureEntry
    from agent_r1_trainer.flows import AgentEnvLoop, AgentFlowBase, Assignment, SingleStepFlow
    from agent_r1_trainer.sft.run import warm_start
    from agent_r1_trainer.steppo_config import StepPOConfig
    from agent_r1_trainer.trainer.steppo_trainer import StepPOTrainer
    from agent_r1_trainer.trajectory import Step, StopReason, Trajectory

__all__ = [
    "AgentEnvLoop",
    "AgentFlowBase",
    "Assignment",
    "GroupResult",
    "MixtureEntry",
    "SingleStepFlow",
    "Step",
    "StepPOConfig",
    "StepPOTrainer",
    "StopReason",
    "TaskSampler",
    "Trajectory",
    "warm_start",
]

_HOME = {
    "flows": ["AgentEnvLoop", "AgentFlowBase", "Assignment", "SingleStepFlow"],
    "environments.mixture": ["MixtureEntry"],
    "steppo_config": ["StepPOConfig"],
    "trainer.steppo_trainer": ["StepPOTrainer"],
    "curriculum.sampler": ["GroupResult", "TaskSampler"],
    "trajectory": ["Step", "StopReason", "Trajectory"],
    "sft.run": ["warm_start"],
}
_MODULES = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used (PEP 562).

    Raises:
        ImportError: Something of the extra ``train`` is missing; the message says how to install it.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        from agent_r1_trainer.extras import explain_missing

        raise explain_missing(error, name) from error


def __dir__() -> list[str]:
    return sorted(__all__)
