"""How many turns an episode has."""

import gymnasium
from gymnasium.wrappers import TimeLimit

from agent_r1_wrappers.order import find_layer


def turn_limit(env: gymnasium.Env) -> int | None:
    """Return the turns that the ``TimeLimit`` inside ``env`` allows, or None without one."""
    limit = find_layer(env, TimeLimit)
    return None if limit is None else int(limit._max_episode_steps)
