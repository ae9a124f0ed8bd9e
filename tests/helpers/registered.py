"""The envs that every test of the contract runs on: the directory of the tests, and all that the package registers."""

import gymnasium

from agent_r1_envs.registration import ENVIRONMENTS

DIRECTORY = "AgentR1Tests/Directory-v0"


def register_directory() -> str:
    """Register the directory env, once a process, and return its id."""
    if DIRECTORY not in gymnasium.registry:
        gymnasium.register(DIRECTORY, entry_point="tests.helpers.directory_env:DirectoryEnv", max_episode_steps=6)
    return DIRECTORY


def all_ids() -> list[str]:
    """Ids of the envs under the contract; those that need an extra of the distribution are tested with it."""
    return [register_directory(), *(environment.id for environment in ENVIRONMENTS if not environment.extra)]
