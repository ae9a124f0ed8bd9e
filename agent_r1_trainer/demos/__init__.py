"""Expert demonstrations in TRL's prompt-completion format, one row a turn. Runs without torch.

A turn is the step of the decision process, so it is the row too: whatever wrappers do to the context between two turns,
the prompt of a row is what the model would see there and the completion is what the expert would write.
"""

from agent_r1_trainer.demos.episode import Demonstration, demonstrate
from agent_r1_trainer.demos.file import DemoError, read_rows
from agent_r1_trainer.demos.run import DemoCounts, DemoRun, DemoSettings

__all__ = ["DemoCounts", "DemoError", "DemoRun", "DemoSettings", "Demonstration", "demonstrate", "read_rows"]
