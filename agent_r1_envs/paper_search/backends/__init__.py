"""Search services: a local corpus, the live Graph API."""

from typing import TYPE_CHECKING

from agent_r1_envs.names import import_on_use
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

# Its HTTP client takes a tenth of a second to import.
__getattr__ = import_on_use(__name__, {"semantic_scholar": ["SemanticScholarBackend"]})
