"""The state of an episode, and what a turn's calls do to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from agent_r1_envs.paper_search.backends.protocol import Found, Lookup, Search
from agent_r1_envs.paper_search.papers.data import Paper
from agent_r1_envs.paper_search.papers.identity import paper_key
from agent_r1_envs.paper_search.pool import LEAST_SCORE, Entry, Pool, with_expanded, with_papers
from agent_r1_envs.paper_search.rules import OWN, Rules

PENALTY: Final = -0.5
"""Reward of a repeated query, and of expanding an unknown or an expanded paper."""

PAID_PAPERS: Final = 3
"""How many of the papers that a call newly adds are paid for: the best ones."""


@dataclass(frozen=True, slots=True)
class World:
    """The state of an episode; immutable.

    Attributes:
        pool: The papers that were found.
        queries: The queries that were answered, in order.
        expanded: Keys of the papers that were expanded, in order.
        calls: Calls that ran, penalised ones included.
        repeats: Calls that were penalised.
        service_failures: Calls that the search service failed.
        selector_failures: Calls with a paper whose relevance could not be judged.
        finished: Whether the agent has ended the episode.
    """

    pool: Pool = field(default_factory=dict)
    queries: tuple[str, ...] = ()
    expanded: tuple[str, ...] = ()
    calls: int = 0
    repeats: int = 0
    service_failures: int = 0
    selector_failures: int = 0
    finished: bool = False

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        return self


@dataclass(frozen=True, slots=True)
class Costs:
    """What a call that was answered costs."""

    search: float = 0.0
    expand: float = 0.0

    def of(self, lookup: Lookup) -> float:
        """Return the cost of a call."""
        return self.search if isinstance(lookup, Search) else self.expand


@dataclass(frozen=True, slots=True)
class CallResult:
    """What became of one call.

    Attributes:
        lookup: The call.
        reward: Its reward.
        found: How many papers the service returned.
        added: The papers that it newly added to the pool, best first.
        refused: Why it was penalised; ``""`` if it was not.
        error: Why service or selector failed; ``""`` if they did not.
    """

    lookup: Lookup
    reward: float = 0.0
    found: int = 0
    added: tuple[Entry, ...] = ()
    refused: str = ""
    error: str = ""


def same_query(query: str) -> str:
    """Return the form in which queries are compared: case and white space do not matter."""
    return " ".join(query.casefold().split())


def why_refused(world: World, lookups: Sequence[Lookup], rules: Rules = OWN) -> list[str]:
    """Return why each call of a turn is penalised, ``""`` for one that is not.

    The calls of a turn are parallel: each is judged by the state before the turn, and by the calls before it only for
    being the same as one of them. By the published rules two equal searches of one turn are no repetition.
    """
    form = str.strip if rules.exact_queries else same_query
    queries = {form(query) for query in world.queries}
    expanded = set(world.expanded)
    reasons = []
    for lookup in lookups:
        if isinstance(lookup, Search):
            query = form(lookup.query)
            reasons.append("this query was searched before" if query in queries else "")
            if not rules.exact_queries:
                queries.add(query)
            continue
        key = paper_key(lookup.paper_id)
        if key not in world.pool:
            reasons.append("no paper of the pool has this id")
        else:
            reasons.append("this paper was expanded before" if key in expanded else "")
        expanded.add(key)
    return reasons


def call_reward(scores: Sequence[float], cost: float) -> float:
    """Return the reward of a call that was answered: the best few scores of the papers that it added, less its cost.

    >>> call_reward([0.5, 1.0, 0.25, 1.0], cost=0.5)
    2.0
    """
    return sum(sorted(scores, reverse=True)[:PAID_PAPERS]) - cost


def settle(
    world: World,
    lookups: Sequence[Lookup],
    answers: Mapping[int, Found],
    scores: Mapping[str, float | None],
    costs: Costs,
    rules: Rules = OWN,
) -> tuple[World, list[CallResult]]:
    """Carry out a turn: give each call its papers and its reward, in order.

    A paper belongs to the first call that found it. A call that service or selector failed earns nothing and is not
    remembered, so that it may be tried again without a penalty; papers of it that could be judged are kept. The
    published rules differ in this: see :class:`~agent_r1_envs.paper_search.rules.Rules`.

    Args:
        world: The state before the turn.
        lookups: The calls.
        answers: The service's answer to every call that is not penalised, by position.
        scores: Relevance of every paper that is not in the pool, by key; None where the selector failed.
        costs: What calls cost.
        rules: What counts.

    Returns:
        The state after the turn, and what became of each call.
    """
    pool, results, unjudged_calls = world.pool, [], 0
    queries, expanded = list(world.queries), list(world.expanded)
    for position, (lookup, reason) in enumerate(zip(lookups, why_refused(world, lookups, rules), strict=True)):
        if reason:
            results.append(CallResult(lookup, PENALTY, refused=reason))
            continue
        answer = answers[position]
        added = _worth_keeping(pool, answer.papers, scores)
        pool = with_papers(pool, added)
        unjudged = not answer.error and any(scores[p.id] is None for p in answer.papers if p.id not in world.pool)
        unjudged_calls += unjudged
        error = answer.error
        if unjudged and not rules.unjudged_is_zero:
            error = "the relevance of some papers could not be judged"
        if not error or rules.failures_count:
            if isinstance(lookup, Search):
                queries.append(lookup.query)
            else:
                expanded.append(paper_key(lookup.paper_id))
        reward = 0.0
        if not error and (added or not rules.misses_are_free):
            reward = call_reward([entry.score for entry in added], costs.of(lookup))
        results.append(CallResult(lookup, reward, len(answer.papers), tuple(added), error=error))
    service = sum(bool(answer.error) for answer in answers.values())
    return (
        replace(
            world,
            pool=with_expanded(pool, expanded[len(world.expanded) :]),
            queries=tuple(queries),
            expanded=tuple(expanded),
            calls=world.calls + len(lookups),
            repeats=world.repeats + sum(bool(result.refused) for result in results),
            service_failures=world.service_failures + service,
            selector_failures=world.selector_failures + unjudged_calls,
        ),
        results,
    )


def _worth_keeping(pool: Pool, papers: Sequence[Paper], scores: Mapping[str, float | None]) -> list[Entry]:
    entries = []
    for paper in papers:
        score = None if paper.id in pool else scores[paper.id]
        if score is not None and score >= LEAST_SCORE:
            entries.append(Entry(paper, score))
    return sorted(entries, key=lambda entry: -entry.score)
