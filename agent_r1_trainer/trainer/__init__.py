"""StepPO on TRL's trainer.

`steppo_trainer` is the trainer; `setup` and `models` prepare what it works with, `evaluation` and `completions` report,
`checkpointing` and `resuming` keep a run whole when it is interrupted.
"""
