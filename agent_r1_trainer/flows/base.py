"""What a flow is given and what it must return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent_r1_trainer.environments.factory import Panel
from agent_r1_trainer.flows.progress import RolloutProgress
from agent_r1_trainer.generation.protocol import Generator, SamplingParams
from agent_r1_trainer.seeds import derive_seed
from agent_r1_trainer.trajectory import StopReason, Trajectory

__all__ = ["AgentFlowBase", "Assignment", "FlowTimes"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """One episode to run.

    Attributes:
        task: Position or id of the task in the environment's panel; None if the environment has no panel.
        seed: Seed of the episode: of the environment's reset and, with sample and turn, of every reply. The samples
            of a group share it, so that they start alike.
        group: Number of the task within the batch.
        sample: Number of this try at the task.
        env: Name of the environment in a mixture; empty where there is one only.
    """

    task: int | str | None
    seed: int
    group: int = 0
    sample: int = 0
    env: str = ""

    def reply_seed(self, turn: int) -> int:
        """Seed of the reply of turn `turn`, a pure function of seed, sample and turn."""
        return derive_seed(self.seed, "reply", self.sample, turn)

    def failed(self, task_id: str, error: str, *, breach: bool = False) -> Trajectory:
        """The masked trajectory of this episode where nothing of it can be used; see `Trajectory` for the arguments."""
        return Trajectory(
            task_id=task_id,
            steps=[],
            stop=StopReason.FAILED,
            group=self.group,
            sample=self.sample,
            env=self.env,
            masked=True,
            error=error,
            breach=breach,
        )


@dataclass(slots=True)
class FlowTimes:
    """Seconds that the last run of a flow spent on each side.

    Attributes:
        generation: In the generator.
        environment: In resets, steps and the making of prompts.
    """

    generation: float = 0.0
    environment: float = 0.0


class AgentFlowBase(ABC):
    """Runs episodes and returns them as trajectories.

    A flow must mask an episode whose environment or tool failed (`Trajectory.masked`) rather than raise, must not
    change the sampled ids, and must use the assignments' seeds for all randomness. A trajectory takes over
    group, sample and environment of its assignment. The trainer looks at what it gets: a reward that is no finite
    number, ids that are none, another group than the assignment's and the like mask the trajectory; in the first
    rollout they stop the run.
    """

    times: FlowTimes
    """What the last `run` spent its time on."""

    progress: RolloutProgress | None = None
    """How far the `run` under way is, or how the last one went; None of a flow that does not say."""

    watch: Callable[[RolloutProgress], None] | None = None
    """Called with `progress` whenever an episode has ended or taken a turn; it must be quick."""

    @property
    def num_tasks(self) -> int | None:
        """Size of the panel that assignments choose tasks from by position; None if only seeds tell tasks apart."""
        return None

    @property
    def panels(self) -> Mapping[str, int | None]:
        """`num_tasks` of each environment by name; a flow of one environment has the empty name only."""
        return {"": self.num_tasks}

    @property
    def turn_limits(self) -> Mapping[str, int | None]:
        """Most replies of an episode, for each environment by name; None where nothing limits them."""
        return dict.fromkeys(self.panels)

    @property
    def tasks(self) -> Mapping[str, Panel | None]:
        """The panel of each environment by name, as far as the flow knows more of it than its size."""
        return {}

    def check(self, sampling: SamplingParams) -> None:  # noqa: B027  (optional)
        """Refuse, before anything is run, what could only fail: see `AgentEnvLoop.check`."""

    @abstractmethod
    def run(
        self,
        assignments: Sequence[Assignment],
        generator: Generator,
        sampling: SamplingParams,
        *,
        policy_version: int = 0,
    ) -> list[Trajectory]:
        """Run every assignment once.

        Args:
            assignments: The episodes.
            generator: Answers prompts.
            sampling: How replies are sampled.
            policy_version: Recorded on every step.

        Returns:
            One trajectory an assignment, in order.
        """

    def close(self) -> None:  # noqa: B027  (optional)
        """Free what the flow holds. The trainer calls it at the end of `train`; `run` may be called again later."""
