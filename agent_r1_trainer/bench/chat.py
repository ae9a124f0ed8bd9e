"""A model behind an OpenAI-compatible chat completions endpoint."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

import gymnasium

from agent_r1_envs.services.endpoint import EndpointError, JsonEndpoint, chat_address
from agent_r1_envs.services.retry import PassingFailure, is_passing
from agent_r1_envs.spaces import as_messages
from agent_r1_trainer.bench.agents import Act, AgentError, Reply
from agent_r1_trainer.bench.sampling import LENGTHS, complete_sampling, request_arguments
from agent_r1_trainer.bench.tool_calls import Turn, read_message, with_calls

__all__ = ["ChatAgent"]

logger = logging.getLogger(__name__)

_OLD_LENGTH, _NEW_LENGTH = LENGTHS
_UNSUPPORTED = re.compile("unsupported|not supported|instead", re.IGNORECASE)
_REFUSED = (400, 422)


class ChatAgent:
    """Plays through the messages that the env emits.

    Each turn posts the whole conversation. Tool schemas, if the recipe hands them on (``chat_template_kwargs``), go
    along as ``tools``; see :mod:`agent_r1_trainer.bench.tool_calls` for the calls that come back. A key in the
    environment variable ``OPENAI_API_KEY`` is sent.

    A model that refuses ``max_tokens`` and asks for ``max_completion_tokens`` gets that instead, from then on.

    Args:
        model: Name of the model at the endpoint.
        url: Base address, such as ``http://127.0.0.1:8000/v1``.
        sampling: Arguments of :func:`~agent_r1_trainer.bench.sampling.complete_sampling`.
        timeout: Seconds to wait for a reply.
        retries: How often a request is repeated after the first failure.
        backoff: Seconds that the first pause between two tries lasts at most.

    Raises:
        ValueError: An argument is out of range, or cannot be set.
    """

    def __init__(
        self,
        model: str,
        url: str,
        *,
        sampling: Mapping[str, Any] | None = None,
        timeout: float = 120.0,
        retries: int = 4,
        backoff: float = 0.5,
    ) -> None:
        self.endpoint = JsonEndpoint(
            chat_address(url), timeout=timeout, retries=retries, backoff=backoff, key_env="OPENAI_API_KEY"
        )
        complete = complete_sampling("openai", model, sampling or {})
        self.recipe: str = complete["recipe"]
        self._settings = {"model": model, **request_arguments(complete)}
        self._renames = False

    def begin(self, env: gymnasium.Env[Any, Any], info: dict[str, Any], seed: int) -> Act:
        """Begin an episode.

        Raises:
            AgentError: The recipe is one of tools, and the env hands none on.
        """
        tools = info.get("chat_template_kwargs", {}).get("tools")
        if self.recipe == "tools" and not tools:
            raise AgentError("this env has a context of its own, which hands no tools on; leave --recipe tools out")
        settings = {"seed": seed, **self._settings, **({"tools": tools} if tools else {})}
        settings = {name: value for name, value in settings.items() if value is not None}
        turns: list[Turn] = []

        def act(observation: Any, info: dict[str, Any]) -> str:
            messages = as_messages(observation)
            if messages is None:
                raise AgentError(f"a chat model reads messages or text, not {type(observation).__name__}")
            answer, requests = self._ask({**settings, "messages": with_calls(messages, turns)})
            try:
                turns.append(read_message(answer["choices"][0]["message"], len(turns)))
            except (KeyError, IndexError, TypeError, AttributeError) as error:
                raise AgentError(
                    f"{self.endpoint.address} answered in another form than chat completions: {str(answer)[:200]!r}"
                ) from error
            return Reply(turns[-1].reply, {"requests": requests, **_usage(answer.get("usage"))})

        return act

    def _ask(self, body: dict[str, Any]) -> tuple[Any, int]:
        """Post a request, once more under the newer name of the longest reply if that is asked for."""
        if self._renames:
            body = _renamed(body)
        try:
            return self.endpoint.ask(body, _check)
        except EndpointError as error:
            if error.status not in _REFUSED:
                raise
            said = str(error) if error.body is None else json.dumps(error.body)
            if not (_OLD_LENGTH in body and _NEW_LENGTH in said and _UNSUPPORTED.search(said)):
                raise _with_way_out(error, body, said) from error
        answer, requests = self.endpoint.ask(_renamed(body), _check)
        self._renames = True
        logger.info("%s wants %s", self.endpoint.address, _NEW_LENGTH)
        return answer, requests + 1


def _renamed(body: dict[str, Any]) -> dict[str, Any]:
    return {_NEW_LENGTH if name == _OLD_LENGTH else name: value for name, value in body.items()}


def _with_way_out(error: EndpointError, body: dict[str, Any], said: str) -> EndpointError:
    """Name the argument that was refused, if the refusal names one that need not be sent."""
    free = [name for name in body if name not in ("model", "messages", "tools", *LENGTHS)]
    refused = [name for name in free if re.search(rf"\b{re.escape(name)}\b", said)]
    hint = "".join(f"; to send no {name}: --sampling '{{\"{name}\": null}}'" for name in refused[:1])
    return EndpointError(f"{error}{hint}", error.status, error.body)


def _check(answer: Any) -> None:
    """Read an error that a gateway sends with the status of success.

    Raises:
        PassingFailure: There is one in place of a reply, which may pass.
    """
    if not isinstance(answer, dict) or answer.get("choices") or not answer.get("error"):
        return
    error = answer["error"]
    code = error.get("code") if isinstance(error, dict) else None
    if not isinstance(code, int) or is_passing(code):
        raise PassingFailure(f"an error in place of a reply: {str(error)[:200]!r}")


def _usage(usage: Any) -> dict[str, int]:
    """Return the numbers of tokens that a reply counts, under one name each; those that it leaves out are left out."""
    if not isinstance(usage, dict):
        return {}
    prompt, completion = (usage.get(f"{part}_tokens_details") for part in ("prompt", "completion"))
    counts = {
        **{name: usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
        "cached_tokens": prompt.get("cached_tokens") if isinstance(prompt, dict) else None,
        "reasoning_tokens": completion.get("reasoning_tokens") if isinstance(completion, dict) else None,
    }
    return {name: count for name, count in counts.items() if isinstance(count, int) and not isinstance(count, bool)}
