"""Which environment is played, and what it must keep to."""
