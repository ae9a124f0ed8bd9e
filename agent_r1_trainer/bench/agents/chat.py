"""A model behind an OpenAI-compatible chat completions endpoint."""

from __future__ import annotations

import json
import os
from typing import Any

import gymnasium

from agent_r1_envs.endpoint import JsonEndpoint
from agent_r1_trainer.bench.agents.base import Act, AgentError

__all__ = ["ChatAgent"]


class ChatAgent:
    """Plays through the messages of the default recipe.

    Each turn posts the whole conversation. Tool schemas, if the recipe passes them on (``chat_template_kwargs``), go
    along as ``tools``; calls that the server has parsed out of a reply are written back into it in Hermes form, which
    is what the recipe reads. A key in the environment variable ``OPENAI_API_KEY`` is sent.

    Args:
        model: Name of the model at the endpoint.
        url: Base address, such as ``http://127.0.0.1:8000/v1``.
        recipe: ``"default"`` or ``"native"``.
        temperature: Of sampling; 0 is greedy.
        max_tokens: Longest reply.
        timeout: Seconds to wait for a reply.
        retries: How often a request is repeated after the first failure.
        backoff: Seconds that the first pause between two tries lasts at most.
    """

    def __init__(
        self,
        model: str,
        url: str,
        *,
        recipe: str = "default",
        temperature: float = 0.0,
        max_tokens: int = 1024,
        timeout: float = 120.0,
        retries: int = 4,
        backoff: float = 0.5,
    ) -> None:
        key = os.environ.get("OPENAI_API_KEY")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        address = url.rstrip("/")
        if not address.endswith("/chat/completions"):
            address += "/chat/completions"
        self.endpoint = JsonEndpoint(address, timeout=timeout, retries=retries, backoff=backoff, headers=headers)
        self.recipe = recipe
        self._settings = {"model": model, "temperature": temperature, "max_tokens": max_tokens}

    def begin(self, env: gymnasium.Env[Any, Any], info: dict[str, Any], seed: int) -> Act:
        """Begin an episode."""
        tools = info.get("chat_template_kwargs", {}).get("tools")
        extra = {"tools": tools} if tools else {}

        def act(observation: Any, info: dict[str, Any]) -> str:
            body = {**self._settings, "seed": seed, "messages": _messages(observation), **extra}
            return _reply(self.endpoint.post(body), self.endpoint.url)

        return act


def _messages(observation: Any) -> list[dict[str, Any]]:
    if isinstance(observation, str):
        return [{"role": "user", "content": observation}]
    if isinstance(observation, (list, tuple)) and all(isinstance(message, dict) for message in observation):
        return list(observation)
    raise AgentError(f"a chat model reads messages or text, not {type(observation).__name__}")


def _reply(answer: Any, url: str) -> str:
    try:
        message = answer["choices"][0]["message"]
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        calls = [_hermes(call["function"]) for call in message.get("tool_calls") or []]
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise AgentError(f"{url} answered in another form than chat completions: {str(answer)[:200]!r}") from error
    return "\n".join([*([content] if content else []), *calls])


def _hermes(function: dict[str, Any]) -> str:
    arguments = function.get("arguments") or "{}"
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:  # the model's own fault: pass it on as it wrote it
            return f'<tool_call>\n{{"name": {json.dumps(function["name"])}, "arguments": {arguments}}}\n</tool_call>'
    call = {"name": function["name"], "arguments": arguments}
    return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"
