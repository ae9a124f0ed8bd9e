"""The environment: find the papers that answer a query, by searching and along citations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final, Literal

from agent_r1_envs.core import Outcome, Score
from agent_r1_envs.errors import ToolError
from agent_r1_envs.paper_search.backends.protocol import Expand, Found, Limits, Lookup, Search
from agent_r1_envs.paper_search.expert import Expert
from agent_r1_envs.paper_search.metric import pool_figures
from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery
from agent_r1_envs.paper_search.papers.identity import paper_key
from agent_r1_envs.paper_search.pool import LEAST_SCORE, list_view, ranked
from agent_r1_envs.paper_search.relevance import make_selector
from agent_r1_envs.paper_search.relevance.factory import SelectorSpec
from agent_r1_envs.paper_search.rendering import call_line, pool_data, pool_text
from agent_r1_envs.paper_search.rules import PUBLISHED, RulesName, rules_of
from agent_r1_envs.paper_search.sources import BackendSpec, load_tasks, make_backend
from agent_r1_envs.paper_search.world import (
    PAID_PAPERS,
    PENALTY,
    CallResult,
    Costs,
    World,
    same_query,
    settle,
    why_refused,
)
from agent_r1_envs.tools import Call, ToolEnv, ToolResult, format_calls
from agent_r1_envs.tools.grammar import parse_calls

_TURNS: Final = 5
_MOST_READ: Final = 1000  # calls of an action of which the first ones run
_LINE_CHARS: Final = 700  # the most that the line of one call takes of an observation


class PaperSearchEnv(ToolEnv[PaperQuery]):
    """Collect the papers that answer a query in a pool, with ``search[query]`` and ``expand[paper_id]``.

    Up to ``max_calls`` calls a turn run in parallel: whether one is a repetition is decided by the state before the
    turn, and by the calls before it. ``finish[text]`` (or ``answer[text]``) ends the episode; the text does not matter.

    * A call earns the three best relevance scores among the papers that it newly adds, less its cost; -0.5 for a
      repeated query and for expanding a paper that is unknown or expanded; 0 where the service or the selector failed.
      A turn earns the sum over its calls. Ending earns nothing more.
    * ``score`` is the F1 of the pool's papers over ``threshold`` against the answers, ``success`` a recall of at least
      ``success_recall``. ``reward_info`` has precision, recall and F1, precision and recall at 20, 25, 50 and 100, and
      the counts ``calls``, ``repeats``, ``service_failures`` and ``selector_failures``.
    * ``info["pool"]``, ``info["queries"]`` and ``info["expanded"]`` hold the state, for prompts that are built anew
      each turn.

    Args:
        split: ``train``, ``validation`` or ``test``.
        data: A file or folder of official data (:func:`~agent_r1_envs.paper_search.loading.load_queries`); None for the
            embedded synthetic queries.
        data_format: ``auto``, or the format of ``data``.
        backend: What is searched; see :func:`~agent_r1_envs.paper_search.sources.make_backend`.
        relevance: What judges papers; see :func:`~agent_r1_envs.paper_search.relevance.make_selector`.
        max_calls: How many calls a turn may hold.
        search_limit: Most papers of a search.
        citation_limit: Most citing papers of an expansion.
        reference_limit: Most cited papers of an expansion; None for 1,000, or for the 99 of the published rules.
        threshold: Papers of the pool with a higher score count as found; None for 0.5. By the published rules None
            stands for 0, and papers of that very score count as well.
        success_recall: The recall from which on an episode is a success.
        search_cost: What a search costs.
        expand_cost: What an expansion costs.
        use_cutoff: Whether papers later than a query's cut-off date are hidden.
        rules: ``published`` plays as the published agents' own code does, in whatever follows from
            :class:`~agent_r1_envs.paper_search.rules.Rules`; ``own`` is this environment's way.
        list_size: Most papers of the list that the agent sees, half of them expanded ones.
        abstract_words: Most words of an abstract in the list.
        observation_chars: Most characters of an observation.
        order: See :class:`~agent_r1_envs.core.AgentEnv`, as for ``shard`` and ``render_mode``.
        shard: The part of the panel to use.
        render_mode: None or ``"ansi"``.

    Raises:
        ValueError: An argument is out of range, or two do not go together.
        DataError: A data file is missing or damaged.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        data: str | None = None,
        data_format: str = "auto",
        backend: BackendSpec = "auto",
        relevance: SelectorSpec = "known",
        max_calls: int = 5,
        search_limit: int = 10,
        citation_limit: int = 30,
        reference_limit: int | None = None,
        threshold: float | None = None,
        success_recall: float = 0.8,
        search_cost: float = 0.0,
        expand_cost: float = 0.0,
        use_cutoff: bool = True,
        rules: RulesName = "own",
        list_size: int = 20,
        abstract_words: int = 400,
        observation_chars: int = 65_536,
        order: Literal["random", "shuffled", "sequential"] = "random",
        shard: tuple[int, int] = (0, 1),
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        _check_at_least("search_limit", search_limit, 1)
        _check_at_least("citation_limit", citation_limit, 0)
        self.rules = rules_of(rules)
        if reference_limit is None or (reference_limit == -1 and self.rules is PUBLISHED):  # its own way to say 99
            reference_limit = self.rules.references
        if threshold is None:
            threshold = self.rules.threshold
        _check_at_least("reference_limit", reference_limit, 0)
        _check_at_least("list_size", list_size, 2)
        _check_at_least("abstract_words", abstract_words, 0)
        _check_at_least("observation_chars", observation_chars, 16_384)
        _check_share("threshold", threshold)
        _check_share("success_recall", success_recall)
        if not (search_cost >= 0 and expand_cost >= 0):
            raise ValueError(f"costs must be at least 0; got {search_cost!r} and {expand_cost!r}")
        tasks = load_tasks(split, data, data_format)
        super().__init__(
            tasks,
            [self.search, self.expand],
            max_calls=max_calls,
            answer_aliases=("finish", "answer"),
            answer_description="End the search: the pool is the result.",
            answer_argument="Anything, such as what the papers have in common; it is not scored.",
            order=order,
            shard=shard,
            max_length=observation_chars,
            render_mode=render_mode,
        )
        self.backend = make_backend(backend, tasks=tasks, data=data)
        self.selector = make_selector(relevance)
        if self.selector.describe().get("name") == "known" and not all(task.answers for task in tasks):
            raise ValueError(
                f"the queries of {tasks.dataset!r} come without answers: pass relevance={{'name': 'classifier', ..}} "
                "or relevance={'name': 'judge', ..}"
            )
        self.limits = Limits(search_limit, citation_limit, reference_limit)
        self.costs = Costs(float(search_cost), float(expand_cost))
        self.threshold, self.success_recall = threshold, success_recall
        self._use_cutoff, self._list_size, self._abstract_words = use_cutoff, list_size, abstract_words
        self._world = World()
        self._expert: Expert | None = None
        self._figures: tuple[World, dict[str, float]] | None = None

    # Tools

    def search(self, query: str) -> ToolResult:
        """Search for papers by words.

        Args:
            query: What to look for; not a query that was searched before.
        """
        return self._single(Search(query))

    def expand(self, paper_id: str) -> ToolResult:
        """Add the papers that a paper of the pool cites and that cite it.

        Args:
            paper_id: The id of a paper of the pool that is marked NEW.
        """
        return self._single(Expand(paper_id))

    # The hooks of the base classes

    def _begin(self) -> str:
        self._world = World()
        return (
            f"Query: {' '.join(self.task.question.split())}\n"
            "Search for papers that answer it, expand the good ones, and finish."
        )

    def _read_calls(self, action: str) -> list[Call]:
        if not self.rules.extra_calls_dropped:
            return super()._read_calls(action)
        return parse_calls(action, self.tools, max_calls=_MOST_READ)[: self.max_calls]

    def _run(self, calls: Sequence[Call]) -> Outcome:
        """Run the calls of a turn in parallel."""
        checked: list[Lookup | ToolError] = []
        for call in calls:
            try:
                tool, arguments = self._checked(call)
                checked.append(_lookup(tool.name, arguments))
            except ToolError as failure:
                checked.append(failure)
        lookups = [item for item in checked if not isinstance(item, ToolError)]
        results = iter(self._carry_out(lookups))
        lines, reports = [], []
        for call, item in zip(calls, checked, strict=True):
            if isinstance(item, ToolError):
                lines.append(f"Error: {item}")
                reports.append(_report(call, str(item), 0.0))
            else:
                result = next(results)
                lines.append(call_line(result))
                reports.append(_report(call, result.error, result.reward))
        return Outcome(
            "\n".join([*lines, "", self._list(len(lines))]),
            reward=sum(report["reward"] for report in reports),
            invalid=None if lookups else "; ".join(report["error"] for report in reports),
            info={"calls": reports},
        )

    def _answer(self, text: str) -> Outcome:
        self._world = dataclasses.replace(self._world, finished=True)
        size = len(self._world.pool)
        return Outcome(f"Finished with {size} paper{'' if size == 1 else 's'} in the pool.", terminated=True)

    def _score(self) -> Score:
        world = self._world
        if self._figures is None or self._figures[0] is not world:
            entries = ranked(world.pool, ties_by_id=self.rules.ties_by_id)
            found = [entry.paper.id for entry in entries if self._counts(entry.score)]
            figures = pool_figures(found, self.task.answers)
            self._figures = (world, figures)
        figures = self._figures[1]
        success = bool(self.task.answers) and figures["recall"] >= self.success_recall
        counts = {name: float(getattr(world, name)) for name in _COUNTS}
        return Score(success, figures["f1"], {**figures, **counts})

    def _info(self, extra: dict[str, Any]) -> dict[str, Any]:
        shown = list_view(self._world.pool, self._list_size, ties_by_id=self.rules.ties_by_id)
        return {
            **super()._info(extra),
            "pool": pool_data(shown, self._abstract_words),
            "pool_size": len(self._world.pool),
            "queries": list(self._world.queries),
            "expanded": list(self._world.expanded),
        }

    def _instruction(self) -> str:
        return self.task.question

    def _get_world(self) -> World:
        return self._world

    def _set_world(self, world: World) -> None:
        self._world = world

    def _state_facts(self) -> Any:
        """The pool, and which queries and expansions would be repetitions; the counts of calls are left out."""
        world = self._world
        pool = {key: (entry.score, entry.expanded) for key, entry in world.pool.items()}
        return [pool, set(map(same_query, world.queries)), set(world.expanded), world.finished]

    def _protocol(self) -> dict[str, Any]:
        return {
            "rules": "Collect papers in a pool by searching and expanding; the pool is the result.",
            "reward": f"per call the {PAID_PAPERS} best relevance scores of papers it adds, less its cost; {PENALTY} "
            "for a repeated query, an unknown or an expanded paper; 0 where a service failed",
            "rules_of_play": self.rules.name,
            "metric": f"F1 of the papers {'at or ' if self.rules.threshold_counts else ''}over the threshold",
            "success": f"recall of at least {self.success_recall}",
            "threshold": self.threshold,
            "least_score": LEAST_SCORE,
            "backend": self.backend.describe(),
            "relevance": self.selector.describe(),
            "limits": dataclasses.asdict(self.limits),
            "costs": dataclasses.asdict(self.costs),
            "max_calls": self.max_calls,
            "use_cutoff": self._use_cutoff,
            "list_size": self._list_size,
            "abstract_words": self._abstract_words,
        }

    def expert_action(self) -> str | None:
        """Expand and search for what leads to missing answers; finish by the fifth turn, or when nothing is missing."""
        if self._world.finished:
            return None
        if self._expert is None or self._expert.task is not self.task:
            self._expert = Expert(self.task, self.backend, self.limits, self._cutoff)
        lookups = self._expert.next_lookups(self._world, self.max_calls) if self.turn + 1 < _TURNS else []
        calls = [
            Call("search", {"query": lookup.query})
            if isinstance(lookup, Search)
            else Call("expand", {"paper_id": lookup.paper_id})
            for lookup in lookups
        ]
        return format_calls(calls or [Call("finish", {"answer": "done"})], self.tools)

    # Parts

    @property
    def _cutoff(self) -> str:
        return self.task.cutoff if self._use_cutoff else ""

    def _counts(self, score: float) -> bool:
        return score > self.threshold or (self.rules.threshold_counts and score == self.threshold)

    def _single(self, lookup: Lookup) -> ToolResult:
        """Run a call that is made outside of a turn, as from another program."""
        [result] = self._carry_out([lookup])
        if result.error:
            raise ToolError(result.error)
        return ToolResult(call_line(result), result.reward)

    def _carry_out(self, lookups: Sequence[Lookup]) -> list[CallResult]:
        """Ask the service and the selector once for a whole turn, and change the world."""
        if not lookups:
            return []
        open_calls = [i for i, reason in enumerate(why_refused(self._world, lookups, self.rules)) if not reason]
        found = self.backend.look_up([lookups[i] for i in open_calls], self.limits, self._cutoff) if open_calls else []
        if self.rules.abstract_needed:
            found = [_with_abstracts(lookups[i], answer) for i, answer in zip(open_calls, found, strict=True)]
        answers = dict(zip(open_calls, found, strict=True))
        new: dict[str, Paper] = {}
        for answer in found:
            for paper in answer.papers:
                if paper.id not in self._world.pool:
                    new.setdefault(paper.id, paper)
        scores = self.selector.judge(self.task, list(new.values())) if new else []
        judged = dict(zip(new, scores, strict=True))
        self._world, results = settle(self._world, lookups, answers, judged, self.costs, self.rules)
        return results

    def _list(self, lines: int) -> str:
        shown = list_view(self._world.pool, self._list_size, ties_by_id=self.rules.ties_by_id)
        budget = self._max_length - lines * _LINE_CHARS
        return pool_text(shown, len(self._world.pool), abstract_words=self._abstract_words, budget=budget)


_COUNTS: Final = ("calls", "repeats", "service_failures", "selector_failures")


def _lookup(name: str, arguments: dict[str, Any]) -> Lookup:
    if name == "search":
        if not arguments["query"].strip():
            raise ToolError("search: the query is empty")
        return Search(arguments["query"])
    if not paper_key(arguments["paper_id"]):
        raise ToolError("expand: the paper_id is empty")
    return Expand(arguments["paper_id"])


def _with_abstracts(lookup: Lookup, found: Found) -> Found:
    """Leave out the papers without an abstract that an expansion found."""
    if isinstance(lookup, Search):
        return found
    return dataclasses.replace(found, papers=tuple(paper for paper in found.papers if paper.abstract))


def _report(call: Call, error: str, reward: float) -> dict[str, Any]:
    return {
        "name": call.name,
        "arguments": call.arguments,
        "ok": not error,
        "error": error,
        "reward": float(reward),
    }


def _check_at_least(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}")


def _check_share(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be from 0 to 1; got {value!r}")
