"""The environments of a flow: building, keeping for the next episode, closing."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping

import gymnasium

from agent_r1_trainer.environments.contract import CheckedEnv, close_quietly
from agent_r1_trainer.environments.factory import UnbuiltEnv

__all__ = ["EnvShelf", "MakeEnv"]

MakeEnv = Callable[[], gymnasium.Env]


class EnvShelf:
    """Builds environments by name and keeps those that are idle; at the latest all are closed when it is forgotten.

    Args:
        factories: Builds an environment of each name.
        vocabulary: Token ids of observations must be below this.
        proven: Names of which an environment was built before. Of others, what the construction raises is the
            caller's; of these it is a failure like any other, which the environment's first episode meets.
    """

    def __init__(self, factories: Mapping[str, MakeEnv], vocabulary: int, proven: frozenset[str] = frozenset()) -> None:
        self._factories = dict(factories)
        self._vocabulary = vocabulary
        self._proven = set(proven)
        self._open: list[CheckedEnv] = []  # built and not closed; some of them idle
        self._idle: dict[str, list[CheckedEnv]] = {name: [] for name in self._factories}
        weakref.finalize(self, _close_all, self._open)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the environments."""
        return tuple(self._factories)

    def __len__(self) -> int:
        """Number of environments that are not closed."""
        return len(self._open)

    def idle(self, name: str) -> CheckedEnv:
        """An environment of that name that stays idle, to be looked at only."""
        if not self._idle[name]:
            self._idle[name].append(self._build(name))
        return self._idle[name][0]

    def take(self, name: str) -> CheckedEnv:
        """An environment of that name for an episode, an idle one where there is one."""
        return self._idle[name].pop() if self._idle[name] else self._build(name)

    def give_back(self, name: str, env: CheckedEnv) -> None:
        """Keep an environment, whose episode has ended, for the next one."""
        self._idle[name].append(env)

    def discard(self, env: CheckedEnv) -> str:
        """Close an environment that failed. Returns what that raised, in words; empty if nothing."""
        self._open.remove(env)
        return close_quietly(env)

    def discard_taken(self) -> None:
        """Close the environments whose episodes were given up."""
        idle = {id(env) for envs in self._idle.values() for env in envs}
        for env in [env for env in self._open if id(env) not in idle]:
            self.discard(env)

    def close(self) -> None:
        """Close all environments; new ones are built where they are needed."""
        for envs in self._idle.values():
            envs.clear()
        _close_all(self._open)

    def _build(self, name: str) -> CheckedEnv:
        try:
            env = CheckedEnv(self._factories[name](), vocabulary=self._vocabulary)
        except Exception as error:
            if name not in self._proven:
                raise
            env = CheckedEnv(UnbuiltEnv(error))
        self._proven.add(name)
        self._open.append(env)
        return env


def _close_all(envs: list[CheckedEnv]) -> None:
    while envs:
        close_quietly(envs.pop())
