"""How many turns an episode has."""

import gymnasium
from gymnasium.wrappers import TimeLimit

from agent_r1_wrappers.order import layers


def turn_limit(env: gymnasium.Env) -> int | None:
    """Return the turns that the tightest ``TimeLimit`` inside ``env`` allows, or None without one."""
    limits = [int(layer._max_episode_steps) for layer in layers(env) if isinstance(layer, TimeLimit)]
    return min(limits, default=None)
