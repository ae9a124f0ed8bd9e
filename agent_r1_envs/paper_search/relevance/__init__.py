"""What judges how relevant a paper is to a query: known answers, a classifier, a language model."""

from agent_r1_envs.paper_search.relevance.factory import make_selector
from agent_r1_envs.paper_search.relevance.known import KnownAnswers, Selector

__all__ = ["KnownAnswers", "Selector", "make_selector"]
