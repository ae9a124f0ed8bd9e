"""StepPO on TRL's trainer: set-up, training, evaluation, checkpoints."""
