"""Search services: a local corpus, the live Graph API."""

from typing import TYPE_CHECKING, Any

from agent_r1_envs.paper_search.backends.corpus import Corpus, CorpusBackend
from agent_r1_envs.paper_search.backends.protocol import Backend, Expand, Found, Limits, Lookup, Search

if TYPE_CHECKING:
    from agent_r1_envs.paper_search.backends.semantic_scholar import SemanticScholarBackend

__all__ = [
    "Backend",
    "Corpus",
    "CorpusBackend",
    "Expand",
    "Found",
    "Limits",
    "Lookup",
    "Search",
    "SemanticScholarBackend",
]


def __getattr__(name: str) -> Any:
    if name == "SemanticScholarBackend":  # its HTTP client takes a tenth of a second to import
        from agent_r1_envs.paper_search.backends.semantic_scholar import SemanticScholarBackend

        return SemanticScholarBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
