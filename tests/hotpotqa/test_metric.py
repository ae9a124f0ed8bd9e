"""The metrics against the golden outputs of the official scripts, and against properties they must have."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.hotpotqa import two_wiki
from agent_r1_envs.hotpotqa.loading import load_questions
from agent_r1_envs.hotpotqa.metric import (
    answer_overlap,
    answer_scores,
    best_overlap,
    cover_match,
    evaluate,
    exact_match,
    joint,
    musique_overlap,
    normalize,
    set_overlap,
)
from tests.data import real_data


def golden(name: str) -> tuple[dict[str, Any], str]:
    folder = real_data("hotpotqa")
    data = json.loads((folder / name).read_text(encoding="utf-8"))
    return data, str(folder / data["gold_file"])


@pytest.mark.parametrize(
    "name", ["golden_eval_hotpot_dev_distractor_slice200.json", "golden_eval_2wikimultihopqa_dev_slice164.json"]
)
def test_every_item_equals_the_official_script(name: str) -> None:
    data, _ = golden(name)
    for item in data["per_item"]:
        ours = answer_overlap(item["prediction"], item["gold"])
        expected = (item["em"], item["f1"], item["precision"], item["recall"])
        assert (ours.em, ours.f1, ours.precision, ours.recall) == expected, item["id"]


def test_every_musique_item_equals_the_official_script() -> None:
    data, gold_file = golden("golden_eval_musique_dev_slice200.json")
    questions = {question.id: question for question in load_questions(gold_file)}
    support = 0.0
    for item, prediction in zip(data["per_item"], data["predictions"], strict=True):
        question = questions[item["id"]]
        assert question.answers == tuple(item["golds"])
        best = best_overlap(item["prediction"], question.answers, musique_overlap)
        assert (best.em, best.f1) == (item["em"], item["f1"]), item["id"]
        marked = question.marked or ()
        support += set_overlap([(i,) for i in prediction["predicted_support_idxs"]], [(i,) for i in marked]).f1
    n = len(data["per_item"])
    em = sum(item["em"] for item in data["per_item"]) / n
    f1 = sum(item["f1"] for item in data["per_item"]) / n
    assert {"answer_em": round(em, 3), "answer_f1": round(f1, 3), "support_f1": round(support / n, 3)} == data[
        "aggregate"
    ]


def test_hotpotqa_totals_equal_the_official_script() -> None:
    data, gold_file = golden("golden_eval_hotpot_dev_distractor_slice200.json")
    questions = load_questions(gold_file)
    facts = {key: [tuple(fact) for fact in value] for key, value in data["predictions"]["sp"].items()}
    totals = evaluate(
        data["predictions"]["answer"],
        {q.id: q.answer for q in questions},
        facts,
        {q.id: q.supporting for q in questions},
    )
    assert totals == pytest.approx(data["aggregate"], abs=1e-12)
    assert totals.keys() == data["aggregate"].keys()


def test_2wiki_totals_equal_the_official_script() -> None:
    data, gold_file = golden("golden_eval_2wikimultihopqa_dev_slice164.json")
    with open(gold_file, encoding="utf-8") as file:
        totals = two_wiki.evaluate(data["predictions"], json.load(file))
    assert {name: round(100 * value, 2) for name, value in totals.items()} == data["aggregate"]


@pytest.mark.parametrize(
    ("prediction", "truth", "em", "f1", "cover"),
    [
        ("The Beatles", "beatles!", 1.0, 1.0, 1.0),
        ("Paris, France", "Paris", 0.0, 2 / 3, 1.0),
        ("yes", "yes", 1.0, 1.0, 1.0),
        ("yes it is", "yes", 0.0, 0.0, 1.0),
        ("no", "no one", 0.0, 0.0, 0.0),
        ("noanswer", "an answer", 0.0, 0.0, 0.0),
        ("", "Paris", 0.0, 0.0, 0.0),
        ("parish", "Paris", 0.0, 0.0, 0.0),
        ("the", "a", 1.0, 0.0, 1.0),  # both normalise to nothing: equal, and without a common token
    ],
)
def test_cases(prediction: str, truth: str, em: float, f1: float, cover: float) -> None:
    assert answer_scores(prediction, [truth]) == {"em": em, "f1": pytest.approx(f1), "cover_em": cover}


def test_musique_differs_where_its_script_does() -> None:
    assert musique_overlap("no", "no one").f1 == pytest.approx(2 / 3)
    assert musique_overlap("the", "a").f1 == 1.0
    assert musique_overlap("the", "Paris").f1 == 0.0


def test_aliases_give_the_best_of_each_figure() -> None:
    best = best_overlap("New York City", ["NYC", "New York", "City of New York"])
    assert (best.em, best.recall) == (0.0, 1.0)
    assert best.f1 == pytest.approx(6 / 7)
    assert answer_scores("nyc", ["New York", "NYC"])["em"] == 1.0
    with pytest.raises(ValueError, match="at least one"):
        best_overlap("x", [])


def test_a_missing_prediction_scores_nothing() -> None:
    facts = {"a": [("T", 0)], "b": [("T", 0)]}
    totals = evaluate({"a": "x"}, {"a": "x", "b": "y"}, facts, facts)
    assert (totals["em"], totals["sp_em"], totals["joint_em"]) == (0.5, 1.0, 0.5)
    with pytest.raises(ValueError, match="at least one question"):
        evaluate({}, {})


def test_sets_count_repetitions_once() -> None:
    overlap = set_overlap([("A", 0), ("A", 0), ("B", 1)], [("A", 0)])
    assert (overlap.precision, overlap.recall, overlap.em) == (0.5, 1.0, 0.0)
    assert set_overlap([], []).em == 1.0
    assert joint(overlap, overlap).precision == 0.25


@given(st.text(), st.text())
def test_properties(a: str, b: str) -> None:
    assert normalize(normalize(a)) == normalize(a) or "İ" in a  # lower-casing is not idempotent for a dotted capital I
    ab, ba = answer_overlap(a, b), answer_overlap(b, a)
    assert (ab.f1, ab.precision, ab.recall) == (ba.f1, ba.recall, ba.precision)
    assert 0.0 <= ab.f1 <= 1.0
    assert ab.em == float(exact_match(a, b)) == ba.em
    if exact_match(a, b):
        assert cover_match(a, b) and cover_match(b, a)
