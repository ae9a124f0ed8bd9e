"""Where queries come from and what is searched, from the JSON forms of an environment's arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agent_r1_envs.cache import load_once, make_once
from agent_r1_envs.names import load_factory
from agent_r1_envs.paper_search.backends.corpus import CorpusBackend
from agent_r1_envs.paper_search.backends.protocol import Backend
from agent_r1_envs.paper_search.embedded import embedded_backend, load_panel
from agent_r1_envs.paper_search.generator import PANEL
from agent_r1_envs.paper_search.loading import load_corpus, load_queries, resolve
from agent_r1_envs.paper_search.papers.data import PaperQuery
from agent_r1_envs.tasks import TaskSet

BackendSpec = str | Mapping[str, Any] | Backend

_FORMS: Final = (
    '"auto", {"path": "a corpus file or a saved corpus"}, {"name": "semantic_scholar", ..}, "module:factory", '
    "or an object with look_up and describe"
)
_BRING_PAPERS: Final = ("deepscholar", "spar")


def load_tasks(split: str, data: str | None, data_format: str) -> TaskSet[PaperQuery]:
    """Return the queries of a split, embedded or from ``data``, loaded once per process.

    Raises:
        ValueError: There is no such split or format.
        DataError: A file is missing or damaged.
    """
    if split not in PANEL:
        raise ValueError(f"split must be one of {', '.join(PANEL)}; got {split!r}")
    if data is None:
        if data_format != "auto":
            raise ValueError(f"data_format={data_format!r} needs data=, a local path; the embedded data have no format")
        return load_panel(split)

    def load(path: Path) -> TaskSet[PaperQuery]:
        return load_queries(path, split=split, data_format=data_format)

    return load_once(resolve(data), load, key=(split, data_format))


def make_backend(spec: BackendSpec, *, tasks: TaskSet[PaperQuery] | None = None, data: str | None = None) -> Backend:
    """Build the search service that ``spec`` names; equal specs share one object in a process.

    Args:
        spec: ``"auto"``: the embedded papers for embedded queries, the papers of ``data`` where that brings some.
            ``{"path": ...}``: a corpus. ``{"name": "semantic_scholar", **arguments}``: the live service.
            ``"module:factory"``, or the same as a name with arguments. Or a live object, returned as it is.
        tasks: The queries.
        data: Where they come from.

    Raises:
        ValueError: If the form or an argument is unknown, or ``"auto"`` has nothing to search.
        DataError: If the corpus is missing or damaged.
        TypeError: If a factory returned something that is no backend.
    """
    if isinstance(spec, Backend) and not isinstance(spec, type):
        return spec
    options = {"name": spec} if isinstance(spec, str) else dict(spec) if isinstance(spec, Mapping) else {}
    if set(options) == {"path"}:
        return load_once(resolve(options["path"]), _corpus_backend)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"unknown backend {spec!r}; expected {_FORMS}")
    if name == "auto":
        return _own_backend(tasks, data)

    def make() -> Backend:
        try:
            return _make(name, options)
        except TypeError as error:
            raise ValueError(f"bad arguments in backend {spec!r}: {error}") from error

    return make_once(("papers backend", name, json.dumps(options, sort_keys=True)), make)


def _own_backend(tasks: TaskSet[PaperQuery] | None, data: str | None) -> Backend:
    if data is None:
        return embedded_backend()
    path = resolve(data)
    if tasks is not None and tasks.dataset in _BRING_PAPERS and path.is_file():
        return load_once(path, _corpus_backend)
    raise ValueError(
        f"{data} has queries and no papers to search: pass backend={{'path': a corpus}} or "
        "backend={'name': 'semantic_scholar'}"
    )


def _corpus_backend(path: Path) -> CorpusBackend:
    return CorpusBackend(load_corpus(path))


def _make(name: str, options: dict[str, Any]) -> Backend:
    if name == "semantic_scholar":
        from agent_r1_envs.paper_search.backends.semantic_scholar import SemanticScholarBackend

        return SemanticScholarBackend(**options)
    backend = load_factory(name, "backend", _FORMS)(**options)
    if not isinstance(backend, Backend):
        raise TypeError(f"{name} returned {type(backend).__name__}, which has no look_up and describe")
    return backend
