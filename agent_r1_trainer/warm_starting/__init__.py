"""Supervised fine-tuning on demonstrations with TRL's `SFTTrainer`, for reinforcement learning to start from.

`run.warm_start` is the function that `agent_r1_trainer` exports; a module of that name would hide it, hence the package's.
Nothing is imported here: settings are read without torch.
"""
