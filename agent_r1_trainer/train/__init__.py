"""`agent-r1 train`: a run from a file of settings. See `docs/train_command.md`."""

from agent_r1_trainer.commands.train import train_command

__all__ = ["train_command"]
