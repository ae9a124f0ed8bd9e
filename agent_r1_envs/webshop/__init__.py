"""WebShop: buy what was asked for in a web shop.

``gymnasium.make("AgentR1/WebShop-v0")`` makes the environment; see :class:`WebShopEnv` for its arguments.
"""

from typing import TYPE_CHECKING

from agent_r1_envs.names import import_on_use

if TYPE_CHECKING:
    from agent_r1_envs.webshop.env import WebShopEnv

__all__ = ["WebShopEnv"]

__getattr__ = import_on_use(__name__, {"env": ["WebShopEnv"]})
