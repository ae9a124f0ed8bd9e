"""The agents that a benchmark can run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agent_r1_trainer.bench.agents.base import Agent
from agent_r1_trainer.bench.settings import AgentSpec

__all__ = ["Agent", "make_agent"]


def make_agent(
    spec: AgentSpec, sampling: Mapping[str, Any], transport: Mapping[str, Any] = MappingProxyType({})
) -> Agent:
    """Build the agent that ``spec`` names.

    Args:
        spec: Which one.
        sampling: Sampling arguments of a model behind an endpoint.
        transport: How patient with the endpoint: ``timeout``, ``retries``, ``backoff``.

    Raises:
        ValueError: The kind is none of ``random``, ``expert`` and ``openai``.
    """
    if spec.kind == "random":
        from agent_r1_trainer.bench.agents.random_agent import RandomAgent

        return RandomAgent()
    if spec.kind == "expert":
        from agent_r1_trainer.bench.agents.expert import ExpertAgent

        return ExpertAgent()
    if spec.kind == "openai":
        from agent_r1_trainer.bench.agents.chat import ChatAgent

        return ChatAgent(spec.model, spec.url, sampling=sampling, **transport)
    raise ValueError(f"there is no agent of the kind {spec.kind!r} here")
