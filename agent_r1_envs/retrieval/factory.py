"""From the JSON form of a retriever, which an environment's spec can hold, to the object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_r1_envs.names import load_factory
from agent_r1_envs.retrieval.okapi import OkapiRetriever
from agent_r1_envs.retrieval.types import Passage, Retriever

_FORMS = '"okapi", {"name": "okapi", "k1": ...}, {"url": "http://..."}, {"path": "saved index"} or "module:factory"'


def make_retriever(spec: str | Mapping[str, Any] | Retriever, passages: Sequence[Passage] | None = None) -> Retriever:
    """Build the retriever that ``spec`` names.

    Args:
        spec: ``"okapi"`` (BM25 over ``passages``); ``{"name": "okapi", **parameters}``; ``{"url": ..., **options}``
            (:class:`~agent_r1_envs.retrieval.http.HttpRetriever`); ``{"path": folder, **options}`` (a saved index);
            ``"module:factory"``, called with ``passages``; or a live object, returned as it is.
        passages: The collection, for the forms that index one.

    Raises:
        ValueError: The form is unknown, an option is unknown, or the form needs passages and there are none.
        TypeError: A factory returned something that is no retriever.
    """
    if isinstance(spec, str):
        return _named(spec, {}, passages)
    if isinstance(spec, Mapping):
        options = dict(spec)
        try:
            if "url" in options:
                from agent_r1_envs.retrieval.http import HttpRetriever

                return HttpRetriever(options.pop("url"), **options)
            if "path" in options:
                return OkapiRetriever.open(options.pop("path"), **options)
            if "name" in options:
                return _named(options.pop("name"), options, passages)
        except TypeError as error:
            raise ValueError(f"bad options in retriever spec {dict(spec)!r}: {error}") from error
    elif isinstance(spec, Retriever) and not isinstance(spec, type):
        return spec
    raise ValueError(f"unknown retriever {spec!r}; expected {_FORMS}, or an object with search and search_batch")


def _named(name: str, options: dict[str, Any], passages: Sequence[Passage] | None) -> Retriever:
    if name == "okapi":
        if passages is None:
            raise ValueError('retriever "okapi" indexes passages, and none were given')
        return OkapiRetriever(passages, **options)
    retriever = load_factory(name, "retriever", _FORMS)(passages, **options)
    if not isinstance(retriever, Retriever):
        raise TypeError(f"{name} returned {type(retriever).__name__}, which has no search and search_batch")
    return retriever
