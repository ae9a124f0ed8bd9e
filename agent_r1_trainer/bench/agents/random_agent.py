"""An agent that knows the rules and nothing else: the floor of every table."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import gymnasium
from agent_r1_wrappers import reply_for

from agent_r1_trainer.bench.agents.base import Act, AgentError

__all__ = ["RandomAgent"]

_WORD = re.compile(r"\w+")
_PLACEHOLDER = "<your query>"  # in an admissible action that wants words


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
