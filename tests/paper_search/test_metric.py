"""Precision, recall and F1: a case by hand, and an implementation of another making."""

import random
from fractions import Fraction

import pytest

from agent_r1_envs.paper_search.metric import CUTS, overlap, pool_figures
from agent_r1_envs.paper_search.papers.data import Paper
from agent_r1_envs.paper_search.papers.identity import paper_key
from agent_r1_envs.paper_search.pool import Entry, list_view, ranked, with_expanded, with_papers


def test_by_hand() -> None:
    # Four papers found, three of five answers among them.
    figures = pool_figures(["a", "x", "b", "c"], ["a", "b", "c", "d", "e"])
    assert figures["precision"] == 0.75 and figures["recall"] == 0.6
    assert figures["f1"] == pytest.approx(2 * 0.75 * 0.6 / 1.35)
    assert all(figures[f"precision@{k}"] == 0.75 for k in CUTS)
    many = [f"x{i}" for i in range(18)] + ["a", "b"] + [f"y{i}" for i in range(10)] + ["c"]
    figures = pool_figures(many, ["a", "b", "c", "d"])
    assert (figures["precision@20"], figures["recall@20"]) == (0.1, 0.5)
    assert (figures["precision@25"], figures["recall@25"]) == (0.08, 0.5)
    assert (figures["precision@50"], figures["recall@50"]) == (3 / 31, 0.75)


@pytest.mark.parametrize(("found", "answers"), [([], ["a"]), (["a"], []), ([], []), (["b"], ["a"])])
def test_nothing_is_zero(found: list[str], answers: list[str]) -> None:
    assert overlap(found, answers).f1 == 0.0


def reference(found: list[str], answers: list[str]) -> tuple[Fraction, Fraction, Fraction]:
    """Count pair by pair; F1 as twice the hits over the sum of both sizes."""
    hits = sum(1 for answer in answers if any(answer == paper for paper in found))
    zero = Fraction(0)
    precision = Fraction(hits, len(found)) if found else zero
    recall = Fraction(hits, len(answers)) if answers else zero
    return precision, recall, Fraction(2 * hits, len(found) + len(answers)) if found or answers else zero


def test_a_thousand_random_pools_with_and_without_versions() -> None:
    rng = random.Random(0)
    for _ in range(1_000):
        names = [f"{rng.randrange(1000, 2600)}.{n:05d}" for n in range(rng.randrange(1, 150))]
        answers = rng.sample(names, rng.randrange(0, min(len(names), 40) + 1))
        found = rng.sample(names, rng.randrange(0, len(names) + 1))
        versioned = [f"arXiv:{name}v{rng.randrange(1, 9)}" for name in found]
        figures = pool_figures([paper_key(name) for name in versioned], answers)
        for k in (None, *CUTS):
            precision, recall, f1 = reference(found[:k], answers)
            suffix = "" if k is None else f"@{k}"
            assert figures[f"precision{suffix}"] == pytest.approx(float(precision), abs=1e-12)
            assert figures[f"recall{suffix}"] == pytest.approx(float(recall), abs=1e-12)
            if k is None:
                assert figures["f1"] == pytest.approx(float(f1), abs=1e-12)


def entry(name: str, score: float) -> Entry:
    return Entry(Paper(name, name.upper()), score)


def test_the_pool_is_ranked_and_keeps_the_first_of_two() -> None:
    pool = with_papers({}, [entry("a", 0.5), entry("b", 0.9), entry("c", 0.5)])
    assert [e.paper.id for e in ranked(pool)] == ["b", "a", "c"], "equal scores in the order of finding"
    again = with_papers(pool, [entry("a", 1.0)])
    assert again is pool
    marked = with_expanded(pool, ["a"])
    assert marked["a"].expanded and not pool["a"].expanded and list(marked) == list(pool)


def test_the_list_is_half_expanded_and_half_not_best_first() -> None:
    pool = with_papers({}, [entry(f"p{n:02d}", n / 100) for n in range(60)])
    pool = with_expanded(pool, [f"p{n:02d}" for n in range(0, 60, 2)])
    shown = list_view(pool, 20)
    assert [e.paper.id for e in shown] == [f"p{n}" for n in range(59, 39, -1)]
    assert sum(e.expanded for e in shown) == 10
    few = list_view(with_papers({}, [entry(f"p{n}", 0.5) for n in range(30)]), 20)
    assert len(few) == 10, "no more than half of the list for one kind"
    assert len(list_view(pool, 3)) == 3
