"""Retrieval: one protocol, an exact BM25 index and a client for retrieval servers."""

from agent_r1_envs.retrieval.factory import make_retriever
from agent_r1_envs.retrieval.okapi import OkapiRetriever
from agent_r1_envs.retrieval.types import Hit, Passage, Retriever
from agent_r1_envs.retrieval.words import words

__all__ = ["Hit", "OkapiRetriever", "Passage", "Retriever", "make_retriever", "words"]
