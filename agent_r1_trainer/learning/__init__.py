"""From trajectories to gradients: experience, scoring, credit assignment, update, critic."""
