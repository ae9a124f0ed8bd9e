"""Which task comes next: walks through shuffled epochs, and samplers that choose by what was learnt."""

from agent_r1_trainer.curriculum.medium_difficulty import MediumDifficulty
from agent_r1_trainer.curriculum.sampler import GroupResult, TaskSampler

__all__ = ["GroupResult", "MediumDifficulty", "TaskSampler"]
