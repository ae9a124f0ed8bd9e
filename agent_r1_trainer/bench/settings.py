"""The settings of a run, checked before anything is loaded."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gymnasium.envs.registration import load_env_creator

from agent_r1_envs.services.secrecy import public_address
from agent_r1_trainer.bench.sampling import LOCAL, complete_sampling
from agent_r1_trainer.environments.factory import find_spec

__all__ = ["AgentSpec", "BenchSettings", "env_arguments", "parse_agent"]

_FORMS = "random, expert, hf:MODEL, vllm:MODEL or openai:MODEL@URL"


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Which agent plays.

    Attributes:
        kind: ``"random"``, ``"expert"``, ``"hf"``, ``"vllm"`` or ``"openai"``.
        model: Name or path of the model; ``""`` where there is none.
        url: Base address of the endpoint; ``""`` where there is none.
    """

    kind: str
    model: str = ""
    url: str = ""

    def __str__(self) -> str:
        """Return the form of the command line."""
        return ":".join(filter(None, [self.kind, self.model])) + (f"@{self.url}" if self.url else "")

    @property
    def shown(self) -> str:
        """The form of the command line without a password or a key that stands in the address."""
        return public_address(str(self))

    @property
    def is_model(self) -> bool:
        """Whether a language model plays, so that sampling settings matter."""
        return self.kind in (*LOCAL, "openai")


def parse_agent(text: str) -> AgentSpec:
    """Read ``random``, ``expert``, ``hf:MODEL``, ``vllm:MODEL`` or ``openai:MODEL@URL``.

    >>> parse_agent("openai:qwen/qwen3@http://127.0.0.1:8000/v1").model
    'qwen/qwen3'

    Raises:
        ValueError: The text has none of these forms.
    """
    if text in ("random", "expert"):
        return AgentSpec(text)
    kind, _, rest = text.partition(":")
    if kind in LOCAL and rest:
        return AgentSpec(kind, os.path.expanduser(rest))
    found = re.fullmatch(r"(.+?)@(https?://.+)", rest)
    if kind == "openai" and found:
        return AgentSpec("openai", found[1], found[2])
    if kind == "openai":
        raise ValueError(
            f"agent {text!r} has no address of a server: say openai:MODEL@URL, with a URL such as http://127.0.0.1:8000/v1"
        )
    raise ValueError(f"unknown agent {text!r}; expected {_FORMS}")


@dataclass(frozen=True)
class BenchSettings:
    """Everything that decides what the episodes are, and how many run at a time.

    Attributes:
        env: Id of the env.
        agent: Who plays.
        split: Passed to the env where its constructor takes a split.
        seed: Seed of the run.
        episodes: How many; None for one per task of the split.
        concurrency: Most episodes at a time.
        env_kwargs: Further arguments of the env's constructor, JSON data.
        max_turns: Turn limit; None for the env's own.
        sampling: Arguments of a model's sampling, and ``recipe``; completed and checked by
            :func:`~agent_r1_trainer.bench.sampling.complete_sampling`. Empty for other agents.
        transport: Settings that change no reply, such as ``timeout``.
    """

    env: str
    agent: AgentSpec
    split: str = "test"
    seed: int = 0
    episodes: int | None = None
    concurrency: int = 1
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_turns: int | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    transport: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.episodes is not None and self.episodes < 1:
            raise ValueError(f"episodes must be at least 1, got {self.episodes}")
        if self.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {self.concurrency}")
        sampling = complete_sampling(self.agent.kind, self.agent.model, self.sampling)
        object.__setattr__(self, "sampling", sampling)


def env_arguments(env: str, split: str, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments of an env: ``env_kwargs``, and the split where the constructor takes one.

    Args:
        env: An id, or ``"module:id"`` with the module that registers it.
        split: The split.
        env_kwargs: Further arguments; a ``split`` among them counts.

    Raises:
        ImportError: The module cannot be imported.
        gymnasium.error.Error: There is no env of this id; the message names near ones.
    """
    spec = find_spec(env)
    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    takes_split = creator is not None and "split" in inspect.signature(creator).parameters
    return {**({"split": split} if takes_split else {}), **env_kwargs}
