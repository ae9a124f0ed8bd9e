"""The embedded literature and its queries, made when first used and shared by the process."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Final

from agent_r1_envs.cache import make_once
from agent_r1_envs.paper_search.backends.corpus import Corpus, CorpusBackend
from agent_r1_envs.paper_search.generator import PANEL, Literature, Split, build_literature, make_queries
from agent_r1_envs.paper_search.papers.data import PaperQuery
from agent_r1_envs.tasks import TaskSet

SEED: Final = 0


def embedded_literature() -> Literature:
    """Return the embedded literature."""
    return make_once(("papers literature", SEED), lambda: build_literature(SEED))


def embedded_backend() -> CorpusBackend:
    """Return the search service over the embedded literature."""

    def make() -> CorpusBackend:
        return CorpusBackend(Corpus.of(embedded_literature().records))

    return make_once(("papers embedded corpus", SEED), make)


def load_panel(split: str) -> TaskSet[PaperQuery]:
    """Return the embedded queries of a split; its content hash covers queries and papers.

    Raises:
        ValueError: If there is no such split.
    """
    if split not in PANEL:
        raise ValueError(f"split must be one of {', '.join(PANEL)}; got {split!r}")
    return make_once(("papers panel", split), lambda: _make_panel(split))


def _make_panel(split: Split) -> TaskSet[PaperQuery]:
    literature = embedded_literature()
    queries = make_queries(literature, split, seed=SEED)
    rows = [[r.paper.id, r.paper.title, r.paper.abstract, r.paper.date, *r.references] for r in literature.records]
    digest = hashlib.sha256(_canonical(rows) + b"\n" + _canonical([dataclasses.astuple(query) for query in queries]))
    return TaskSet(
        queries,
        dataset="synthetic",
        split=split,
        ids=[query.id for query in queries],
        content_hash=digest.hexdigest(),
    )


def _canonical(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode("ascii")
