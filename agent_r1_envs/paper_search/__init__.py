"""Paper search: find the papers that answer a query, by searching and along citations.

``gymnasium.make("AgentR1/PaperSearch-v0")`` makes the environment; see :class:`PaperSearchEnv` for its arguments.
"""

from typing import TYPE_CHECKING

from agent_r1_envs.names import import_on_use

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

__getattr__ = import_on_use(
    __name__,
    {
        "backends": ["Backend", "Corpus", "CorpusBackend", "SemanticScholarBackend"],
        "papers.data": ["Paper", "PaperQuery", "PaperRecord"],
        "env": ["PaperSearchEnv"],
        "loading": ["build_corpus", "iter_papers", "load_corpus", "load_queries"],
        "relevance": ["Selector"],
    },
)
