"""Action formats: how a command is written in a model's reply."""
