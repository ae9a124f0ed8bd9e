"""The tiny policy of the embedded HotpotQA: its language, its demonstrations, its quality, its checkpoint."""

from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import environment_words, teach
from agent_r1_trainer.tiny_policy.hotpotqa.quality import measure_quality

__all__ = ["environment_words", "measure_quality", "teach"]
