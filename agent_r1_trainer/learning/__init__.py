"""From trajectories to gradients.

`make_experience` scores (`scoring`) a collected batch and assigns its credit (`assignment`); the `experience` that
comes out is the plan of the updates (`update`), whose targets the `critic` learns in units of its own (`value_scale`).
"""
