"""Which sampling arguments an agent takes: what a run has without a word, what is passed on, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from agent_r1_envs.names import did_you_mean
from agent_r1_trainer.generation.protocol import SamplingParams
from agent_r1_trainer.prompts.context_settings import ContextSettings

__all__ = ["LENGTHS", "LOCAL", "complete_sampling", "local_params", "request_arguments"]

LENGTHS = ("max_tokens", "max_completion_tokens")
"""Names of the longest reply at endpoints, the newer one last."""

LOCAL = ("hf", "vllm")
"""Kinds of agents that are models on this machine."""

_LOCAL = {"max_tokens": "max_new_tokens"} | {
    field.name: field.name for field in fields(SamplingParams) if field.name not in ("max_new_tokens", "stop_token_ids")
}
_OURS = {
    "messages": "the environment's context is sent",
    "model": "it is named in openai:MODEL@URL",
    "stream": "replies are read whole",
    "n": "one reply a turn is played",
    "tools": "--recipe tools sends the environment's",
    "api_key": "set OPENAI_API_KEY",
    "extra_headers": "set OPENAI_API_KEY for the key",
    "extra_query": "write it into the URL",
}


def complete_sampling(kind: str, model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sampling arguments of a run: those given, checked, over the defaults.

    A model has ``recipe`` (its own, or ``"default"``), ``temperature`` 0 and ``max_tokens`` 1024. An endpoint takes any
    further argument: what stands in ``extra_body`` is sent beside the others, and null leaves an argument out.

    Args:
        kind: Of the agent, as in ``AgentSpec``.
        model: Its name or folder; ``""`` for an agent that is no model.
        given: Arguments by the names of the chat completions API; JSON data.

    Raises:
        ValueError: An argument is not for this agent, or its value cannot be; the message names it.
    """
    if not model:
        if given:
            raise ValueError(f"sampling is for a model; the agent {kind} takes none, got {', '.join(given)}")
        return {}
    said = {**given, **_further(given)}
    lengths = [name for name in LENGTHS if said.get(name) is not None]
    if len(lengths) > 1:
        raise ValueError(f"sampling says the longest reply twice, as {' and '.join(lengths)}; say it once")
    length: dict[str, Any] = {} if any(name in said for name in LENGTHS) else {"max_tokens": 1024}
    own = ContextSettings.load(model) if kind in LOCAL else ContextSettings()
    sampling = {"recipe": own.recipe, "temperature": 0.0, **length, **given}
    if kind in LOCAL:
        local_params(sampling)
    else:
        request_arguments(sampling)
    return sampling


def local_params(sampling: Mapping[str, Any], stop_token_ids: tuple[int, ...] = ()) -> SamplingParams:
    """Return the arguments as this package's generators take them.

    Raises:
        ValueError: One is unknown to them, or out of range.
    """
    arguments = {name: value for name, value in sampling.items() if name != "recipe"}
    for name, value in arguments.items():
        if name not in _LOCAL:
            hint = "; --seed is the seed of the run" if name == "seed" else _near(name, _LOCAL)
            raise ValueError(
                f"sampling of hf: and vllm: has no argument {name!r}{hint}; it has {', '.join(sorted(_LOCAL))}"
            )
        if name == "stop_strings" and isinstance(value, (list, tuple)):
            arguments[name] = tuple(value)
            continue
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (whole or (isinstance(value, float) and name in ("temperature", "top_p"))):
            wanted = "a list of strings" if name == "stop_strings" else "a number, and whole where it counts"
            raise ValueError(f"sampling: {name} must be {wanted}, got {value!r}")
    try:
        return SamplingParams(
            stop_token_ids=stop_token_ids, **{_LOCAL[name]: value for name, value in arguments.items()}
        )
    except ValueError as error:
        raise ValueError(f"sampling: {str(error).replace('max_new_tokens', 'max_tokens')}") from None


def request_arguments(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """Return what goes into the body of a request beside model, messages, tools and seed.

    A ``seed`` of None is left in: it says that none is to be sent.

    Raises:
        ValueError: An argument is not the user's to set, or is no JSON data.
    """
    arguments = {n: v for n, v in sampling.items() if n not in ("recipe", "extra_body")} | _further(sampling)
    for name, value in arguments.items():
        if name in _OURS:
            raise ValueError(f"sampling: {name!r} cannot be set: {_OURS[name]}")
        if name == "seed" and value is not None:
            raise ValueError("sampling: 'seed' is made of --seed and the episode; only null, for no seed, can be said")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"sampling: {name} must be JSON data, got {value!r} ({error})") from None
    return {name: value for name, value in arguments.items() if value is not None or name == "seed"}


def _further(sampling: Mapping[str, Any]) -> dict[str, Any]:
    extra = sampling.get("extra_body") or {}
    if not isinstance(extra, Mapping):
        raise ValueError(f"sampling: extra_body must be an object of further arguments, got {extra!r}")
    return dict(extra)


def _near(name: str, known: Iterable[str]) -> str:
    aliases = {"max_completion_tokens": "max_tokens", "max_new_tokens": "max_tokens"}
    return did_you_mean(aliases.get(name, name), known)
