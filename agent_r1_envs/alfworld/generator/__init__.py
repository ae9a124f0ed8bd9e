"""Generated households."""
