"""The planner and the explorer: shortest plans, and a search of a room that is not known."""
