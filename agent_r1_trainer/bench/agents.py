"""The agents that a benchmark can run, and what it asks of one.

The expert asks the env itself: the ceiling of every table, and the proof that the tasks can be solved. The random agent
knows the rules and nothing else: the floor. Models behind an endpoint are in `chat`, local ones in `local`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import gymnasium
from agent_r1_wrappers import reply_for

from agent_r1_trainer.bench.settings import AgentSpec

__all__ = ["Act", "Agent", "AgentError", "ExpertAgent", "RandomAgent", "Reply", "make_agent"]

Act = Callable[[Any, dict[str, Any]], str]
"""From an observation and its ``info`` to the next reply."""


class Reply(str):
    """A reply that says what it cost.

    Attributes:
        usage: Counts by name, such as ``prompt_tokens``; kept with the turn and added up in the summary.
    """

    __slots__ = ("usage",)

    usage: dict[str, int]

    def __new__(cls, text: str, usage: dict[str, int]) -> Reply:
        """Make the reply."""
        reply = super().__new__(cls, text)
        reply.usage = usage
        return reply

    def __getnewargs__(self) -> tuple[str, dict[str, int]]:  # type: ignore[override]
        """Return the arguments that rebuild the reply from a pickle or a copy."""
        return str(self), self.usage


class AgentError(RuntimeError):
    """The agent cannot act; the episode is recorded as failed and the run goes on."""


class Agent(Protocol):
    """Plays episodes, several at a time from several threads.

    Attributes:
        recipe: The context that it needs: ``"none"`` for an agent that writes native commands, ``"default"`` or
            another one for a model that reads chat messages.
    """

    recipe: str

    def begin(self, env: gymnasium.Env[Any, Any], info: dict[str, Any], seed: int) -> Act:
        """Begin an episode.

        Args:
            env: The env, already reset.
            info: What its reset returned.
            seed: Of all random choices in the episode.
        """
        ...


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
        return RandomAgent()
    if spec.kind == "expert":
        return ExpertAgent()
    if spec.kind == "openai":
        from agent_r1_trainer.bench.chat import ChatAgent

        return ChatAgent(spec.model, spec.url, sampling=sampling, **transport)
    raise ValueError(f"there is no agent of the kind {spec.kind!r} here")


class ExpertAgent:
    """Plays ``env.unwrapped.expert_action()``."""

    recipe = "none"

    def begin(self, env: gymnasium.Env[Any, Any], info: dict[str, Any], seed: int) -> Act:
        """Begin an episode.

        Raises:
            AgentError: The env has no ``expert_action``.
        """
        expert = getattr(env.unwrapped, "expert_action", None)
        if expert is None:
            raise AgentError(f"{type(env.unwrapped).__name__} has no expert_action()")

        def act(observation: Any, info: dict[str, Any]) -> str:
            action = expert()
            if action is None:
                raise AgentError("the env knows no good action from here")
            return reply_for(env, str(action))

        return act


class RandomAgent:
    """Takes a random admissible action where the env lists them, else calls a random tool.

    A query that an admissible action leaves open becomes a few successive words of the instruction. The arguments of a
    call fit the tool's schema; texts are a few successive words of what the env said last. The choices depend on the
    seed of the episode alone.
    """

    recipe = "none"

    def begin(self, env: gymnasium.Env[Any, Any], info: dict[str, Any], seed: int) -> Act:
        """Begin an episode.

        Raises:
            AgentError: The env lists neither admissible actions nor tools.
        """
        rng = random.Random(seed)
        tools = [tool["function"] for tool in info.get("tools", [])]
        if not tools and "admissible_actions" not in info:
            raise AgentError("the random agent needs admissible_actions or tools in the info of reset")

        def act(observation: Any, info: dict[str, Any]) -> str:
            admissible = info.get("admissible_actions")
            if admissible:
                action = str(rng.choice(admissible))
                if _PLACEHOLDER in action:
                    words = _WORD.findall(str(info.get("instruction", ""))) or ["nothing"]
                    action = action.replace(_PLACEHOLDER, _value({}, words, rng))
                return reply_for(env, action)
            tool = rng.choice(tools)
            words = _WORD.findall(str(observation)) or _WORD.findall(str(info.get("instruction", ""))) or ["nothing"]
            call = {"name": tool["name"], "arguments": _arguments(tool["parameters"], words, rng)}
            return reply_for(env, json.dumps(call, ensure_ascii=False))

        return act


_WORD = re.compile(r"\w+")
_PLACEHOLDER = "<your query>"  # in an admissible action that wants words


def _arguments(schema: dict[str, Any], words: list[str], rng: random.Random) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {name: _value(properties.get(name, {}), words, rng) for name in schema.get("required", [])}


def _value(schema: dict[str, Any], words: list[str], rng: random.Random) -> Any:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type", "string"):
        case "integer":
            return rng.randint(int(schema.get("minimum", 0)), int(schema.get("maximum", 10)))
        case "number":
            return rng.uniform(float(schema.get("minimum", 0)), float(schema.get("maximum", 1)))
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [_value(schema.get("items", {}), words, rng) for _ in range(rng.randint(1, 2))]
        case "object":
            return _arguments(schema, words, rng)
        case _:
            begin = rng.randrange(len(words))
            return " ".join(words[begin : begin + rng.randint(1, 3)])
