"""From the JSON form of a selector, which an environment's spec can hold, to the object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agent_r1_envs.cache import make_once
from agent_r1_envs.names import load_factory
from agent_r1_envs.paper_search.relevance.known import KnownAnswers, Selector

SelectorSpec = str | Mapping[str, Any] | Selector

_FORMS: Final = (
    '"known", {"name": "classifier", "url": .., "model": ..}, {"name": "judge", "url": .., "model": ..}, '
    '"module:factory", or an object with judge and describe'
)


def make_selector(spec: SelectorSpec) -> Selector:
    """Build the selector that ``spec`` names; equal specs share one object, with its cache, in a process.

    Args:
        spec: ``"known"``; ``{"name": "known" | "classifier" | "judge", **arguments}``; ``"module:factory"``, or the
            same as a name with arguments; or a live object, returned as it is.

    Raises:
        ValueError: If the form or an argument is unknown.
        TypeError: If a factory returned something that is no selector.
    """
    if isinstance(spec, Selector) and not isinstance(spec, type):
        return spec
    options = {"name": spec} if isinstance(spec, str) else dict(spec) if isinstance(spec, Mapping) else {}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"unknown relevance {spec!r}; expected {_FORMS}")

    def make() -> Selector:
        try:
            return _make(name, options)
        except TypeError as error:
            raise ValueError(f"bad arguments in relevance {spec!r}: {error}") from error

    return make_once(("papers selector", name, json.dumps(options, sort_keys=True)), make)


def _make(name: str, options: dict[str, Any]) -> Selector:
    if name == "known":
        return KnownAnswers(**options)
    if name == "classifier":
        from agent_r1_envs.paper_search.relevance.classifier import ClassifierSelector

        return ClassifierSelector(**options)
    if name == "judge":
        from agent_r1_envs.paper_search.relevance.judge import JudgeSelector

        return JudgeSelector(**options)
    selector = load_factory(name, "relevance", _FORMS)(**options)
    if not isinstance(selector, Selector):
        raise TypeError(f"{name} returned {type(selector).__name__}, which has no judge and describe")
    return selector
