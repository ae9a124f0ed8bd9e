"""A synthetic literature and queries over it, made by code from a fixed seed."""

from agent_r1_envs.paper_search.generator.literature import Literature, build_literature
from agent_r1_envs.paper_search.generator.queries import PANEL, SPLITS, Split, make_queries

__all__ = ["PANEL", "SPLITS", "Literature", "Split", "build_literature", "make_queries"]
