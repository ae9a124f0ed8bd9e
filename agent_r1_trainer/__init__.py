"""Step-level reinforcement learning of language-model agents, as a TRL plugin.

Nothing heavy is imported before it is used: the command line and the benchmark run without torch.
"""

from typing import TYPE_CHECKING, Any

from agent_r1_envs.names import import_on_use

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

_import = import_on_use(
    __name__,
    {
        "flows": ["AgentEnvLoop", "AgentFlowBase", "Assignment", "SingleStepFlow"],
        "environments.mixture": ["MixtureEntry"],
        "steppo_config": ["StepPOConfig"],
        "trainer.steppo_trainer": ["StepPOTrainer"],
        "curriculum.sampler": ["GroupResult", "TaskSampler"],
        "trajectory": ["Step", "StopReason", "Trajectory"],
        "sft.run": ["warm_start"],
    },
)


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used (PEP 562).

    Raises:
        ImportError: Something of the extra ``train`` is missing; the message says how to install it.
    """
    try:
        return _import(name)
    except ModuleNotFoundError as error:
        from agent_r1_trainer.extras import explain_missing

        raise explain_missing(error, name) from error


def __dir__() -> list[str]:
    return sorted(__all__)
