"""`python -m agent_r1_trainer` is `agent-r1`, also for `accelerate launch -m`."""

from agent_r1_trainer.cli import main

main()
