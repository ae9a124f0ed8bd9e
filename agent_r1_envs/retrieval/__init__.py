"""Retrieval: one protocol, exact BM25 indexes (Okapi's, Lucene's) and a client for retrieval servers."""

from typing import TYPE_CHECKING

from agent_r1_envs.names import import_on_use
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

# The HTTP client takes a tenth of a second to import.
__getattr__ = import_on_use(__name__, {"http": ["HttpRetriever", "RetrievalError"], "lucene": ["LuceneIndex"]})
