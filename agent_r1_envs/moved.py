"""Modules under the names that they had before, so that what was written down then still loads.

Specs of environments and wrappers, saved as JSON, and pickled snapshots name modules. A file that moved is entered
here, and an import of its old name gives the module under its new one: the same object, and so the same classes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["MOVED", "current_entry_points", "resolve_moved"]

_BY_PACKAGE = {
    "agent_r1_envs": {
        "endpoint": "services.endpoint",
    },
    "agent_r1_envs.alfworld": {
        "bits": "game.model",
        "dialects": "game.dialects",
        "drawing": "expert.drawing",
        "engine": "game.engine",
        "explorer": "expert.explorer",
        "goals": "official.goals",
        "households": "generator.households",
        "matching": "game.matching",
        "model": "game.model",
        "names": "official.parsing",
        "parsing": "official.parsing",
        "pddl": "official.pddl",
        "planner": "expert.planner",
        "records": "official.store",
        "routes": "expert.routes",
        "scoring": "game.scoring",
        "store": "official.store",
        "texts": "game.texts",
        "vocabulary": "generator.vocabulary",
    },
    "agent_r1_envs.hotpotqa": {
        "world": "encyclopedia",
    },
    "agent_r1_envs.paper_search": {
        "backends.corpus_store": "backends.corpus",
        "backends.graph_api": "backends.semantic_scholar",
        "backends.loop_thread": "backends.patient_client",
        "backends.recordings": "backends.patient_client",
        "data": "papers.data",
        "generator.draws": "generator.lexicon",
        "identity": "papers.identity",
        "relevance.protocol": "relevance.known",
        "rows": "papers.rows",
    },
    "agent_r1_envs.retrieval": {
        "lucene_build": "lucene",
        "store": "okapi",
    },
    "agent_r1_envs.webshop": {
        "actions": "pages.actions",
        "colours": "reward",
        "data": "catalogue.data",
        "elements": "pages.elements",
        "embedded": "catalogue.opening",
        "fuzzy": "reward",
        "generator_words": "generator.words",
        "goal_tasks": "tasks",
        "goals": "catalogue.goals",
        "html": "pages.html",
        "loading": "catalogue.opening",
        "nouns": "catalogue.nouns",
        "panels": "tasks",
        "prices": "catalogue.prices",
        "product_rows": "catalogue.rows",
        "purchase": "expert",
        "render": "pages.render",
        "rules": "pages.rules",
        "session": "pages.session",
        "sources": "catalogue.files",
        "store": "catalogue.store",
        "store_build": "catalogue.build",
        "store_fill": "catalogue.build",
        "store_records": "catalogue.records",
        "views": "pages.views",
    },
    "agent_r1_wrappers": {
        "action_format": "formats.action_format",
        "append_history": "context.append_history",
        "augment_context": "context.augment_context",
        "context_operation": "context.context_operation",
        "explain_invalid": "context.explain_invalid",
        "hermes": "formats.hermes",
        "html_to_text": "context.html_to_text",
        "invalid_action_penalty": "rewards",
        "lengths": "fitting",
        "lenient_json": "formats.lenient_json",
        "order": "stack",
        "parse_react": "formats.parse_react",
        "parse_tags": "formats.parse_tags",
        "parse_tool_calls": "formats.parse_tool_calls",
        "parse_tool_tags": "formats.parse_tool_tags",
        "replies": "formats.action_format",
        "rewrite_context": "context.rewrite_context",
        "state": "stack",
        "success_bonus": "rewards",
        "success_reward": "rewards",
        "summaries": "context.summarize_history",
        "summarize_history": "context.summarize_history",
        "tags": "formats.tags",
        "thinking": "formats.tags",
        "truncate_history": "context.truncate_history",
        "turns": "stack",
        "wrap_observation": "context.wrap_observation",
    },
}

MOVED = {f"{package}.{old}": f"{package}.{new}" for package, names in _BY_PACKAGE.items() for old, new in names.items()}
"""Old name of a module to its name now."""


class _Alias(Loader):
    """Loads the module of the new name in place of the old one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self._spec = (module := import_module(self._name)).__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put that of the old name there


class _Finder(MetaPathFinder):
    """Knows the old names; it comes last, so that it costs nothing where a module is where it was."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, _Alias(MOVED[fullname])) if fullname in MOVED else None


def resolve_moved() -> None:
    """Let imports of old names give the modules of the new ones; a second call changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def current_entry_points(data: Any) -> Any:
    """Return JSON data with each `entry_point` as the class says it now, so that specs can be compared across versions.

    A class is named by its package or by the file that it lay in, depending on when the spec was written down.
    """
    if isinstance(data, list):
        return [current_entry_points(item) for item in data]
    if not isinstance(data, dict):
        return data
    return {
        key: _current(value) if key == "entry_point" else current_entry_points(value) for key, value in data.items()
    }


def _current(point: Any) -> Any:
    module, _, name = str(point).partition(":")
    try:
        found = getattr(import_module(module), name)
        return f"{found.__module__}:{found.__qualname__}"
    except (ImportError, AttributeError, ValueError):  # of another package, or no longer there
        return point
