"""The environments of this package and their ids."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium

__all__ = ["ENVIRONMENTS", "Registration", "register_environments"]


@dataclass(frozen=True, slots=True)
class Registration:
    """One id.

    Attributes:
        id: What ``gymnasium.make`` takes. Its version is raised when an observation, a reward or an embedded panel
            changes.
        entry_point: ``"module:class"``, imported by the first ``make``.
        max_episode_steps: The benchmark's turn limit.
        summary: The environment in one line.
        extra: The extra of the distribution that it needs, ``""`` for none.
    """

    id: str
    entry_point: str
    max_episode_steps: int
    summary: str
    extra: str = ""


ENVIRONMENTS: tuple[Registration, ...] = (
    Registration(
        id="AgentR1/HotpotQA-v0",
        entry_point="agent_r1_envs.hotpotqa:HotpotQAEnv",
        max_episode_steps=5,
        summary="Answer multi-hop questions by searching an encyclopedia.",
    ),
    Registration(
        id="AgentR1/WebShop-v0",
        entry_point="agent_r1_envs.webshop:WebShopEnv",
        max_episode_steps=15,
        summary="Buy what an instruction asks for in a web shop.",
    ),
    Registration(
        id="AgentR1/PaperSearch-v0",
        entry_point="agent_r1_envs.paper_search:PaperSearchEnv",
        max_episode_steps=5,
        summary="Find the papers that answer a query, by searching and along citations.",
    ),
    Registration(
        id="AgentR1/ALFWorld-v0",
        entry_point="agent_r1_envs.alfworld:ALFWorldEnv",
        max_episode_steps=50,
        summary="Do household tasks in a room that is told in text.",
    ),
)


def register_environments() -> None:
    """Register every id with Gymnasium; ids that are registered already stay as they are."""
    for environment in ENVIRONMENTS:
        if environment.id not in gymnasium.registry:
            gymnasium.register(
                id=environment.id,
                entry_point=environment.entry_point,
                max_episode_steps=environment.max_episode_steps,
            )
