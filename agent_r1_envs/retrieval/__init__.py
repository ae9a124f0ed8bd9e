"""Retrieval: one protocol, an exact BM25 index and a client for retrieval servers."""

from typing import TYPE_CHECKING, Any

from agent_r1_envs.retrieval.factory import make_retriever
from agent_r1_envs.retrieval.okapi import OkapiRetriever
from agent_r1_envs.retrieval.types import Hit, Passage, Retriever
from agent_r1_envs.retrieval.words import words

if TYPE_CHECKING:
    from agent_r1_envs.retrieval.http import HttpRetriever, RetrievalError

__all__ = [
    "Hit",
    "HttpRetriever",
    "OkapiRetriever",
    "Passage",
    "RetrievalError",
    "Retriever",
    "make_retriever",
    "words",
]


def __getattr__(name: str) -> Any:
    if name in ("HttpRetriever", "RetrievalError"):  # its HTTP client takes a tenth of a second to import
        from agent_r1_envs.retrieval import http

        return getattr(http, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
