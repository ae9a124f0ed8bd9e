"""What a run shows for itself: the exam on held-out tasks, its table, and the picture of the curve."""
