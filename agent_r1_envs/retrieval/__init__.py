"""Retrieval: one protocol, exact BM25 indexes (Okapi's, Lucene's) and a client for retrieval servers."""

from typing import TYPE_CHECKING, Any

from agent_r1_envs.retrieval.factory import make_retriever
from agent_r1_envs.retrieval.okapi import OkapiRetriever
from agent_r1_envs.retrieval.types import Hit, Passage, Retriever
from agent_r1_envs.retrieval.words import words

if TYPE_CHECKING:
    from agent_r1_envs.retrieval.http import HttpRetriever, RetrievalError
    from agent_r1_envs.retrieval.lucene import LuceneIndex

__all__ = [
    "Hit",
    "HttpRetriever",
    "LuceneIndex",
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
    if name == "LuceneIndex":
        from agent_r1_envs.retrieval.lucene import LuceneIndex

        return LuceneIndex
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
