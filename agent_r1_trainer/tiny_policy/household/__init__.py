"""The tiny policy of easy embedded households: its language, its demonstrations, its quality, its checkpoint."""

from agent_r1_trainer.tiny_policy.household.demonstrations import environment_words, teach
from agent_r1_trainer.tiny_policy.household.quality import measure_quality

__all__ = ["environment_words", "measure_quality", "teach"]
