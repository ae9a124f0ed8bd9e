"""A policy of 0.2 million parameters for machines without weights, and the code that makes it.

It knows the closed language of the embedded HotpotQA and nothing else. It is cloned, not pretrained: see `cloning`.
"""

from agent_r1_trainer.tiny_policy.architecture import TinyArchitecture, build_model
from agent_r1_trainer.tiny_policy.loading import CHECKPOINT, load_tiny_policy

__all__ = ["CHECKPOINT", "TinyArchitecture", "build_model", "load_tiny_policy"]
