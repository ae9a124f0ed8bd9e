"""Context management as composable Gymnasium wrappers."""
