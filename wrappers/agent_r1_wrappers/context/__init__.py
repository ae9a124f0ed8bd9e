"""What the model sees: each wrapper here makes the next prompt of the history and the observation."""
