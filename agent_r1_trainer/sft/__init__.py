"""Supervised fine-tuning on demonstrations with TRL's `SFTTrainer`, for reinforcement learning to start from.

`run.warm_start` is the function that `agent_r1_trainer` exports. A module of that name would hide it, so the package
has another. Nothing is imported here: settings are read without torch.
"""
