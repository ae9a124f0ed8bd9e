"""The published rules, each with what the reference's own code gives."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import agent_r1_envs  # noqa: F401
from agent_r1_envs.paper_search import Corpus, CorpusBackend, Paper, PaperRecord
from agent_r1_envs.paper_search.env import PaperSearchEnv
from agent_r1_envs.paper_search.pool import Entry, list_view, ranked, with_expanded, with_papers
from tests.helpers.contract import check_step
from tests.helpers.papers import RECORDS, Flaky, Grades, small_backend, small_env

A, B, C, D, P5, LATER = (record.paper.id for record in RECORDS)


def published(scores: dict[str, float | None] | None = None, **kwargs: Any) -> PaperSearchEnv:
    return small_env(scores, **{"rules": "published", **kwargs})


def rewards(info: dict[str, Any]) -> list[float]:
    return [call["reward"] for call in info["calls"]]


def test_an_expansion_leaves_out_papers_without_an_abstract_and_a_search_does_not() -> None:
    for env, pool in ((small_env(), {A, B, C, D, LATER}), (published(), {A, B, C, LATER})):
        check_step(env, "search[sieves]")
        *_, info = check_step(env, f"expand[{A}]")
        assert {paper["id"] for paper in info["pool"]} == pool
    *_, info = check_step(published(), "search[survey sand]")
    assert D in {paper["id"] for paper in info["pool"]}


def entry(name: str, score: float) -> Entry:
    return Entry(Paper(name, name), score)


def test_ties_are_listed_by_descending_id_and_expanded_ones_first() -> None:
    found = [("b", 0.5), ("d", 0.5), ("a", 0.5), ("c", 0.9), ("e", 0.5)]
    pool = with_expanded(with_papers({}, [entry(*one) for one in found]), ["a", "b"])
    assert [e.paper.id for e in ranked(pool, ties_by_id=True)] == ["c", "e", "d", "b", "a"]
    assert [e.paper.id for e in list_view(pool, 20, ties_by_id=True)] == ["c", "b", "a", "e", "d"]
    assert [e.paper.id for e in list_view(pool, 4, ties_by_id=True)] == ["c", "b", "a", "e"]
    assert [e.paper.id for e in ranked(pool)] == ["c", "b", "d", "a", "e"], "the own rules: as they were found"


def test_figures_count_the_papers_at_the_threshold_in_the_published_order(tmp_path: Path) -> None:
    backend = CorpusBackend(Corpus.of(PaperRecord(Paper(f"p{n:03d}", "sand", "sand")) for n in range(30)))
    query = {"qid": "q", "question": "sand?", "answer": ["sand"], "answer_arxiv_id": ["p029"]}
    (tmp_path / "queries.jsonl").write_text(json.dumps(query))

    def figures(**kwargs: Any) -> list[float]:
        kwargs |= {"data": str(tmp_path / "queries.jsonl"), "backend": backend, "search_limit": 30}
        env = PaperSearchEnv("test", relevance=Grades({}, 0.25), **kwargs)
        env.reset()
        *_, info = env.step("search[sand]")
        return [info["reward_info"][name] for name in ("precision", "recall", "recall@20")]

    assert figures() == [0.0, 0.0, 0.0], "nothing is over 0.5"
    assert figures(threshold=0.0) == [1 / 30, 1.0, 0.0], "found last"
    assert figures(rules="published") == [1 / 30, 1.0, 1.0], "the largest id comes first"
    assert figures(threshold=0.25) == [0.0, 0.0, 0.0]
    assert figures(threshold=0.25, rules="published") == [1 / 30, 1.0, 1.0]


def test_the_limit_of_references_is_that_of_the_client() -> None:
    assert PaperSearchEnv("test").limits.references == 1000
    assert PaperSearchEnv("test", rules="published").limits.references == 99
    assert PaperSearchEnv("test", rules="published", reference_limit=-1).limits.references == 99
    assert PaperSearchEnv("test", rules="published", reference_limit=7).limits.references == 7
    with pytest.raises(ValueError, match="reference_limit must be an integer of at least 0; got -1"):
        PaperSearchEnv("test", reference_limit=-1)


def test_a_query_is_repeated_only_by_an_equal_one_of_an_earlier_turn() -> None:
    env = published({A: 1.0})
    assert rewards(check_step(env, "search[sand]\nsearch[sand]\nsearch[SAND]")[4]) == [2.0, 0.0, 0.0]
    assert rewards(check_step(env, "search[sand]\nsearch[Sand]")[4]) == [-0.5, 0.0]
    *_, info = check_step(env, f"expand[{A}]\nexpand[{A}]\nexpand[nothing]")
    assert rewards(info)[1:] == [-0.5, -0.5]


def test_a_call_that_the_service_failed_was_made() -> None:
    env = published({A: 1.0}, backend=Flaky(small_backend(), lambda n: n in (0, 2)))
    assert rewards(check_step(env, "search[sieves]\nsearch[sand]")[4]) == [0.0, 2.0]
    assert rewards(check_step(env, f"search[sieves]\nexpand[{A}]")[4]) == [-0.5, 0.0]
    *_, info = check_step(env, f"expand[{A}]")
    assert rewards(info) == [-0.5] and info["expanded"] == [A] and info["reward_info"]["service_failures"] == 2.0


def test_a_paper_that_could_not_be_judged_is_worth_nothing_and_its_call_is_paid() -> None:
    env = published(relevance=Grades({B: None}, 0.25))
    *_, info = check_step(env, "search[sand]")
    assert rewards(info) == [0.75] and info["calls"][0]["ok"] and info["reward_info"]["selector_failures"] == 1.0
    assert B not in {paper["id"] for paper in info["pool"]}
    assert rewards(check_step(env, "search[sand]")[4]) == [-0.5]


def test_only_a_call_that_adds_papers_costs() -> None:
    env = published({A: 1.0}, search_cost=0.125, relevance=Grades({A: 1.0}))
    assert rewards(check_step(env, "search[sieves]\nsearch[magnets]")[4]) == [0.875, 0.0]


def test_of_too_many_calls_the_first_ones_run() -> None:
    env = published({A: 1.0}, max_calls=2)
    *_, info = check_step(env, "search[sieves]\nsearch[gravel]\nsearch[magnets]")
    assert info["queries"] == ["sieves", "gravel"] and "invalid_action" not in info
    *_, info = check_step(env, "no call at all")
    assert "invalid_action" in info


def test_the_switch_is_in_spec_and_protocol_and_the_expert_still_solves_the_tasks() -> None:
    env = gymnasium.make("AgentR1/PaperSearch-v0", split="test", rules="published")
    for position in range(0, 150, 15):
        _, info = env.reset(options={"task": position})
        while (action := env.unwrapped.expert_action()) is not None:  # type: ignore[attr-defined]
            *_, last = env.step(action)
        assert last["reward_info"]["recall"] == 1.0
    assert info["protocol"]["rules_of_play"] == "published" and info["protocol"]["threshold"] == 0.0
    assert info["protocol"]["metric"] == "F1 of the papers at or over the threshold"
    with pytest.raises(ValueError, match="rules must be one of own, published; got 'pasa'"):
        PaperSearchEnv(rules="pasa")  # type: ignore[arg-type]
