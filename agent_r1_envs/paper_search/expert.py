"""A good way through a query, from its known answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent_r1_envs.paper_search.backends.corpus import CorpusBackend
from agent_r1_envs.paper_search.backends.protocol import Backend, Expand, Limits, Lookup, Search
from agent_r1_envs.paper_search.papers.data import PaperQuery
from agent_r1_envs.paper_search.pool import ranked
from agent_r1_envs.paper_search.world import World, same_query


class Expert:
    """Plans the turns of one episode.

    It asks the question first. Then it expands papers of the pool that lead to missing answers, and searches for the
    titles of the others. On a local corpus it looks ahead: it knows which titles can be found by searching, and which
    paper to bring into the pool so that its expansion leads on. On another service it tries titles, then expands the
    best papers.

    Args:
        task: The query.
        backend: The search service.
        limits: How much a look-up returns.
        cutoff: The cut-off that is in force.
    """

    def __init__(self, task: PaperQuery, backend: Backend, limits: Limits, cutoff: str) -> None:
        self.task = task
        self._local = backend if isinstance(backend, CorpusBackend) else None
        self._limits, self._cutoff = limits, cutoff
        self._titles = dict(zip(task.answers, task.titles, strict=True)) if task.titles else {}
        self._neighbours: dict[str, frozenset[str]] = {}
        self._findable: dict[str, bool] = {}

    def next_lookups(self, world: World, most: int) -> list[Lookup]:
        """Return the calls of the next turn, none when nothing is missing or nothing is left to try.

        Args:
            world: The state of the episode.
            most: Most calls of a turn.
        """
        missing = [key for key in self.task.answers if key not in world.pool and self._exists(key)]
        if not missing:
            return []
        asked = {same_query(query) for query in world.queries}
        lookups: list[Lookup] = [] if same_query(self.task.question) in asked else [Search(self.task.question)]
        left = dict.fromkeys(missing)
        plan = self._plan_ahead(world, left) if self._local else iter(self._try_everything(world, left))
        for lookup in plan:
            if len(lookups) == most:
                break
            query = same_query(lookup.query) if isinstance(lookup, Search) else ""
            if query not in asked:
                lookups.append(lookup)
                asked |= {query} - {""}
        return lookups

    def _try_everything(self, world: World, left: Iterable[str]) -> list[Lookup]:
        titles: list[Lookup] = [Search(self._titles[key]) for key in left if key in self._titles]
        return titles + [Expand(entry.paper.id) for entry in ranked(world.pool) if not entry.expanded]

    def _plan_ahead(self, world: World, left: dict[str, None]) -> Iterator[Lookup]:
        """Yield look-ups that lead to missing answers, the most fruitful expansions first."""
        candidates = [key for key, entry in world.pool.items() if not entry.expanded]
        while left and candidates:
            best = max(candidates, key=lambda key: len(self._around(key) & left.keys()))
            gain = self._around(best) & left.keys()
            # One paper alone is as well searched for, which brings others with it.
            if not gain or (len(gain) == 1 and all(self._can_be_found(key) for key in gain)):
                break
            yield Expand(best)
            candidates.remove(best)
            for key in gain:
                del left[key]
        hidden = []
        for key in left:
            if self._can_be_found(key):
                yield Search(self._title(key))
            else:
                hidden.append(key)
        yield from (Search(self._title(key)) for key in self._bridges(world, hidden))

    def _bridges(self, world: World, hidden: Iterable[str]) -> list[str]:
        """Return papers to bring into the pool because their expansion leads to hidden ones, the best first."""
        bridges: dict[str, int] = {}
        for key in hidden:
            for near in self._around(key):
                if near not in world.pool and key in self._around(near) and self._can_be_found(near):
                    bridges[near] = bridges.get(near, 0) + 1
        # An answer is kept in the pool for sure; of others, those that lead to several come first.
        return sorted(bridges, key=lambda near: (near not in self._titles, -bridges[near], near))

    def _exists(self, key: str) -> bool:
        return self._local is None or self._local.corpus.position(key) is not None

    def _around(self, key: str) -> frozenset[str]:
        if key not in self._neighbours:
            assert self._local is not None
            self._neighbours[key] = frozenset(self._local.neighbours(key, self._limits, self._cutoff))
        return self._neighbours[key]

    def _title(self, key: str) -> str:
        """Return the words to search a paper by: its title as the corpus has it."""
        assert self._local is not None
        position = self._local.corpus.position(key)
        return self._local.corpus.index.passages[position].title if position is not None else ""

    def _can_be_found(self, key: str) -> bool:
        if key not in self._findable:
            assert self._local is not None
            title = self._title(key)
            found = self._local.corpus.search(title, self._limits.search, self._cutoff) if title.strip() else []
            self._findable[key] = any(paper.id == key for paper in found)
        return self._findable[key]
