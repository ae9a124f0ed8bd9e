"""Paper search: find the papers that answer a query, by searching and along citations.

``gymnasium.make("AgentR1/PaperSearch-v0")`` makes the environment; see :class:`PaperSearchEnv` for its arguments.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_r1_envs.paper_search.backends import Backend, Corpus, CorpusBackend, SemanticScholarBackend
    from agent_r1_envs.paper_search.env import PaperSearchEnv
    from agent_r1_envs.paper_search.loading import build_corpus, iter_papers, load_corpus, load_queries
    from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery, PaperRecord
    from agent_r1_envs.paper_search.relevance import Selector

__all__ = [
    "Backend",
    "Corpus",
    "CorpusBackend",
    "Paper",
    "PaperQuery",
    "PaperRecord",
    "PaperSearchEnv",
    "Selector",
    "SemanticScholarBackend",
    "build_corpus",
    "iter_papers",
    "load_corpus",
    "load_queries",
]

_HOME = {
    "backends": ["Backend", "Corpus", "CorpusBackend", "SemanticScholarBackend"],
    "papers.data": ["Paper", "PaperQuery", "PaperRecord"],
    "env": ["PaperSearchEnv"],
    "loading": ["build_corpus", "iter_papers", "load_corpus", "load_queries"],
    "relevance": ["Selector"],
}
_MODULES = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
