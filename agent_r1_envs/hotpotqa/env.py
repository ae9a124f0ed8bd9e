"""The environment: answer a multi-hop question by searching for passages."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from agent_r1_envs.core import Outcome, Score
from agent_r1_envs.errors import ToolError
from agent_r1_envs.hotpotqa.data import Question
from agent_r1_envs.hotpotqa.expert import next_queries
from agent_r1_envs.hotpotqa.metric import answer_overlap, answer_scores, musique_overlap
from agent_r1_envs.hotpotqa.passages import SHORTEST, find_sentences, show
from agent_r1_envs.hotpotqa.sources import (
    Retrieval,
    RetrieverSpec,
    check_retrieval,
    corpus_retriever,
    has_own_index,
    hold_a_word,
    load_tasks,
    own_passages,
    scorer_of,
)
from agent_r1_envs.retrieval import Passage, Retriever, make_retriever
from agent_r1_envs.text import clean, cut, echo
from agent_r1_envs.tools import Call, ToolEnv, format_calls

Metric = Literal["em", "f1", "cover_em"]

_TURNS: Final = 5
# What the headings of parallel calls may take of an observation, each.
_HEADING: Final = 256


@dataclass(slots=True)
class World:
    """The state of an episode.

    Attributes:
        passages: What was shown, in the order of the numbers.
        queries: What was searched.
        looked_up: The string of the last lookup, and how many of its sentences were shown.
        answer: The final answer, None before it is given.
    """

    passages: list[Passage] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    looked_up: tuple[str, int] = ("", 0)
    answer: str | None = None


class HotpotQAEnv(ToolEnv[Question]):
    """Answer a question whose facts are spread over several passages, which have to be searched for.

    Actions are ``search[query]``, up to ``max_calls`` in one turn, one a line; ``lookup[string]`` if enabled; and
    ``answer[text]`` (or ``finish[text]``), which ends the episode. JSON calls work as well. A turn gives reward 0, the
    answer gives ``metric``. Success is an exact match, over all accepted answers, by the benchmark's own rules.

    Args:
        split: ``train``, ``validation`` or ``test``.
        data: A file or folder of official data (see :func:`~agent_r1_envs.hotpotqa.loading.load_questions`); None for
            the embedded synthetic panel.
        data_format: ``auto``, or the format of ``data``.
        corpus: A file of titles and texts to search, for ``retrieval="corpus"``; None for all the paragraphs of the
            split together.
        retrieval: ``distractor`` searches the paragraphs that the task comes with, ``corpus`` a whole corpus.
        retriever: What searches: see :func:`~agent_r1_envs.retrieval.make_retriever`. A server, a saved index or an
            object brings its own corpus and needs ``retrieval="corpus"``.
        top_k: How many passages a search returns.
        max_calls: How many calls a turn may hold.
        metric: The reward and score: ``em``, ``f1`` or ``cover_em`` (an accepted answer is inside the given one).
        lookup: Whether there is the tool ``lookup``.
        force_first_search: Whether the question itself is searched before the first turn.
        passage_chars: The most characters that are shown of one passage.
        observation_chars: The most characters of an observation; the longest passages are cut to fit.
        order: See :class:`~agent_r1_envs.core.AgentEnv`, as for ``shard`` and ``render_mode``.
        shard: The part of the panel to use.
        render_mode: None or ``"ansi"``.

    Raises:
        ValueError: An argument is out of range, or two do not go together.
        DataError: A data file is missing or damaged.

    ``info["reward_info"]`` holds ``em``, ``f1``, ``cover_em`` and, where the data mark supporting paragraphs,
    ``support_recall``: the share of them that was shown so far, a diagnostic that earns nothing. ``info["queries"]``
    and ``info["passages"]`` (title, text) list what was searched and shown so far, for contexts that are built anew
    every turn.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        data: str | None = None,
        data_format: str = "auto",
        corpus: str | None = None,
        retrieval: Retrieval = "distractor",
        retriever: RetrieverSpec = "okapi",
        top_k: int = 3,
        max_calls: int = 4,
        metric: Metric = "em",
        lookup: bool = False,
        force_first_search: bool = False,
        passage_chars: int = 1200,
        observation_chars: int = 16_384,
        order: Literal["random", "shuffled", "sequential"] = "random",
        shard: tuple[int, int] = (0, 1),
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        if metric not in get_args(Metric):
            raise ValueError(f"metric must be one of {', '.join(get_args(Metric))}; got {metric!r}")
        _check_at_least("top_k", top_k, 1)
        _check_at_least("passage_chars", passage_chars, SHORTEST)
        _check_at_least("observation_chars", observation_chars, 1024)
        tasks = load_tasks(split, data, data_format)
        check_retrieval(tasks, retrieval, retriever, corpus)
        tools: list[Callable[..., Any]] = [self.search, self.lookup] if lookup else [self.search]
        super().__init__(
            tasks,
            tools,
            max_calls=max_calls,
            order=order,
            shard=shard,
            max_length=observation_chars,
            render_mode=render_mode,
        )
        self.metric, self.top_k = metric, top_k
        self._retrieval, self._retriever_spec, self._force_first_search = retrieval, retriever, force_first_search
        self._passage_chars, self._observation_chars = passage_chars, observation_chars
        self._budget = observation_chars
        self._corpus = corpus_retriever(tasks, retriever, corpus) if retrieval == "corpus" else None
        # Passages of a foreign corpus may be cut or worded otherwise than a task's paragraphs: titles must do.
        self._foreign = corpus is not None or has_own_index(retriever)
        self._scorer = scorer_of(tasks)
        self._marks_support = any(question.gold for question in tasks)
        self._own: tuple[Question, Retriever | None] | None = None
        self._world = World()

    # Tools

    def search(self, query: str) -> str:
        """Search for passages.

        Args:
            query: What to look for, such as the name of a person, place or work.
        """
        if not query.strip():
            raise ToolError("the query is empty")
        text = self._show(self._find(query))
        self._world.queries.append(query)
        return text

    def lookup(self, string: str) -> str:
        """Find the next sentence that holds a string, in the passages that were shown.

        Args:
            string: The words to find; the same words again give the next sentence.
        """
        if not string.strip():
            raise ToolError("the string is empty")
        found = find_sentences(self._world.passages, string)
        last, seen = self._world.looked_up
        place = seen if string == last else 0
        if place >= len(found):
            return "No more results." if found else "No shown passage holds it."
        self._world.looked_up = (string, place + 1)
        number, sentence = found[place]
        title = self._world.passages[number - 1].title
        head = f"(Result {place + 1} / {len(found)}) [{number}] {title}: "
        return head + cut(sentence, max(self._budget - len(head), SHORTEST))

    # The hooks of the base classes

    def _begin(self) -> str:
        self._world = World()
        self._budget = self._observation_chars
        question = f"Question: {' '.join(self.task.question.split())}"
        if not self._force_first_search:
            return f"{question}\nSearch, then answer."
        self._budget -= len(question) + 1
        return f"{question}\n{self.search(clean(self.task.question))}"

    def _run(self, calls: Sequence[Call]) -> Outcome:
        self._budget = self._observation_chars // len(calls) - (_HEADING if len(calls) > 1 else 0)
        return super()._run(calls)

    def _answer(self, text: str) -> Outcome:
        if not text.strip():
            return dataclasses.replace(self._refuse("the answer is empty"), info={})
        self._world.answer = text
        return Outcome(f"Answer: {echo(text)}", reward=self._score().score, terminated=True)

    def _score(self) -> Score:
        answer, question = self._world.answer, self.task
        if answer is None:
            scores = {"em": 0.0, "f1": 0.0, "cover_em": 0.0}
        else:
            compare = musique_overlap if question.dataset == "musique" else answer_overlap
            scores = answer_scores(answer, question.answers, compare)
        success, score = scores["em"] == 1.0, scores[self.metric]
        if self._marks_support:
            found = len(question.gold) - len(self._missing())
            scores["support_recall"] = found / len(question.gold) if question.gold else 0.0
        return Score(success, score, scores)

    def _info(self, extra: dict[str, Any]) -> dict[str, Any]:
        passages = [
            {"title": clean(passage.title), "text": clean(passage.text, self._passage_chars)}
            for passage in self._world.passages
        ]
        return {**super()._info(extra), "queries": list(self._world.queries), "passages": passages}

    def _instruction(self) -> str:
        return self.task.question

    def _get_world(self) -> World:
        return self._world

    def _set_world(self, world: World) -> None:
        self._world = world

    def _state_facts(self) -> Any:
        """What was read, in whatever order; which words found it does not matter."""
        world = self._world
        shown = frozenset((passage.title, passage.text) for passage in world.passages)
        return [shown, world.looked_up, world.answer]

    def _protocol(self) -> dict[str, Any]:
        return {
            "rules": "Search for passages, then give the answer in as few words as possible. Each passage is shown "
            "once; later it is only named.",
            "metric": self.metric,
            "scorer": self._scorer,
            "success": "exact match",
            "retrieval": self._retrieval,
            "retriever": self._retriever_spec
            if isinstance(self._retriever_spec, str | Mapping)
            else repr(self._retriever_spec),
            "top_k": self.top_k,
            "max_calls": self.max_calls,
            "force_first_search": self._force_first_search,
            "passage_chars": self._passage_chars,
        }

    def expert_action(self) -> str | None:
        """Search what the question and the shown passages name; then, by the fifth turn, give the gold answer."""
        world, question = self._world, self.task
        if world.answer is not None:
            return None
        if self.turn + 1 < _TURNS:
            queries = next_queries(question, self._missing(), world.passages, world.queries, self.max_calls)
            if queries:
                return format_calls([Call("search", {"query": query}) for query in queries], self.tools)
        return format_calls([Call("answer", {"answer": question.answer})], self.tools)

    # Parts

    def _find(self, query: str) -> list[Passage]:
        if self._corpus is not None:
            engine: Retriever | None = self._corpus
        else:
            if self._own is None or self._own[0] is not self.task:
                passages = own_passages(self.task)
                retriever = make_retriever(self._retriever_spec, passages) if hold_a_word(passages) else None
                self._own = (self.task, retriever)
            engine = self._own[1]
        return [hit.passage for hit in engine.search(query, self.top_k)] if engine is not None else []

    def _show(self, hits: Sequence[Passage]) -> str:
        return show(hits, self._world.passages, passage_chars=self._passage_chars, budget=self._budget)

    def _missing(self) -> list[int]:
        """Return the positions of the supporting paragraphs that were not shown yet."""
        shown = {(passage.title, "" if self._foreign else passage.text) for passage in self._world.passages}
        missing = []
        for position in self.task.gold:
            passage = self.task.paragraphs[position].passage("")
            if (passage.title, "" if self._foreign else passage.text) not in shown:
                missing.append(position)
        return missing


def _check_at_least(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}")
