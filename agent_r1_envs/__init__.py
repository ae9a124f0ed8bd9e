"""Text-agent environments for Gymnasium."""
