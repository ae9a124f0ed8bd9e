"""Policies of 0.1 to 0.2 million parameters for machines without weights, and the code that makes them.

Each knows the closed language of one embedded environment and nothing else. They are cloned, not pretrained: see
`cloning`, and `subjects` for what they are made for.
"""

from agent_r1_trainer.tiny_policy.architecture import TinyArchitecture, build_model
from agent_r1_trainer.tiny_policy.loading import CHECKPOINT, CHECKPOINTS, load_tiny_policy

__all__ = ["CHECKPOINT", "CHECKPOINTS", "TinyArchitecture", "build_model", "load_tiny_policy"]
