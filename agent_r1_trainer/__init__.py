"""Step-level reinforcement learning of language-model agents, as a TRL plugin."""
