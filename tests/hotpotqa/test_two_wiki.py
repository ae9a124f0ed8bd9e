"""2Wiki's scores: figures that both official scripts printed, and a second implementation that works otherwise."""

import json
import string
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agent_r1_envs  # noqa: F401
from agent_r1_envs.errors import DataError
from agent_r1_envs.hotpotqa import load_questions
from agent_r1_envs.hotpotqa.two_wiki import evaluate, read_aliases

ALIASES = [
    {"Q_id": "Q30", "aliases": ["USA", "the United States", "U.S."], "demonyms": ["American"]},
    {"Q_id": "Q1", "aliases": ["John  Doe, Jr.", "Jon Doe"], "demonyms": []},
    {"Q_id": "Q2", "aliases": [], "demonyms": []},
    {"Q_id": "Q3", "aliases": ["İstanbul", "Straße 3"], "demonyms": []},
]


def gold(id: str, **changes: Any) -> dict[str, Any]:
    return {
        "_id": id,
        "answer": "John Doe",
        "answer_id": None,
        "supporting_facts": [["The Film (1950)", 0], ["John Doe", 1]],
        "evidences": [["The Film (1950)", "director", "John Doe"]],
        "evidences_id": [],
        **changes,
    }


FILM = ["the film 1950", "director", "john doe"]
CASES: dict[str, tuple[dict[str, Any], tuple[Any, Any, Any], list[float], list[float]]] = {
    # gold; predicted answer, facts and evidence; what versions 1.0 and 1.1 print: em and f1 of answer, sp, evi, joint
    "other spelling of evidence": (
        gold("q"),
        ("john doe", [["the film (1950)", 0], ["JOHN DOE", 1]], [FILM]),
        [100, 100, 100, 100, 100, 100, 100, 100],
        [100, 100, 100, 100, 100, 100, 100, 100],
    ),
    "articles stay in evidence": (
        gold("q"),
        ("a John Doe", [["Film (1950)", 0]], [["film 1950", "director", "john doe"]]),
        [100, 100, 0, 0, 0, 0, 0, 0],
        [100, 100, 0, 0, 0, 0, 0, 0],
    ),
    "two spellings of one title are two facts": (
        gold("q", supporting_facts=[["A", 0], ["B", 0]]),
        ("Doe", [["A", 0], ["a", 0], ["A", 0]], [FILM, ["The Film 1950", "Director", "John, Doe"]]),
        [0, 66.67, 0, 80, 100, 100, 0, 50],
        [0, 66.67, 0, 80, 100, 100, 0, 50],
    ),
    "nothing": (gold("q"), ("", [], []), [0] * 8, [0] * 8),
    "nothing is right": (
        gold("q", answer="the", supporting_facts=[], evidences=[]),
        ("a", [], []),
        [100, 0, 100, 0, 100, 0, 100, 0],
        [100, 0, 100, 0, 100, 0, 100, 0],
    ),
    "yes and more": (
        gold("q", answer="yes"),
        ("yes it is", [["John Doe", 1]], [FILM]),
        [0, 0, 0, 66.67, 100, 100, 0, 0],
        [0, 0, 0, 66.67, 100, 100, 0, 0],
    ),
    "alias of the answer": (
        gold("q", answer="United States of America", answer_id="Q30"),
        ("american", [], [FILM]),
        [0, 0, 0, 0, 100, 100, 0, 0],
        [100, 100, 0, 0, 100, 100, 0, 0],
    ),
    "aliases in evidence": (
        gold("q", evidences_id=[["Q2", "director", "Q1"]]),
        ("John Doe", [["The Film (1950)", 0], ["John Doe", 1]], [["the film 1950", "director", "john doe jr"]]),
        [100, 100, 100, 100, 0, 0, 0, 0],
        [100, 100, 100, 100, 100, 100, 100, 100],
    ),
    "two ways to write one triple": (
        gold("q", evidences_id=[["Q2", "director", "Q1"]]),
        ("John Doe", [["The Film (1950)", 0], ["John Doe", 1]], [FILM, ["the film 1950", "director", "jon doe"]]),
        [100, 100, 100, 100, 0, 66.67, 0, 66.67],
        [100, 100, 100, 100, 0, 133.33, 0, 133.33],
    ),
    "one triple twice in the gold": (
        gold("q", evidences=[["The Film (1950)", "director", "John Doe"], FILM]),
        ("John Doe", [["The Film (1950)", 0], ["John Doe", 1]], [FILM]),
        [100, 100, 100, 100, 100, 100, 100, 100],
        [100, 100, 100, 100, 0, 66.67, 0, 66.67],
    ),
    "unicode": (
        gold("q", answer="Istanbul", answer_id="Q3", evidences=[["Ödön", "born\u00a0in", "STRASSE 3"]]),
        ("i\u0307stanbul", [["\u0130", 0]], [["ödön", "born in", "strasse  3"]]),
        [0, 0, 0, 0, 100, 100, 0, 0],
        [100, 100, 0, 0, 100, 100, 0, 0],
    ),
    "an unknown entity": (
        gold("q", answer_id="Q999", evidences_id=[["Q998", "director", "Q999"]]),
        ("Jon Doe", [["The Film (1950)", 0]], [FILM]),
        [0, 50, 0, 66.67, 100, 100, 0, 33.33],
        [0, 50, 0, 66.67, 100, 100, 0, 33.33],
    ),
}
NAMES = [f"{prefix}{name}" for prefix in ("", "sp_", "evi_", "joint_") for name in ("em", "f1")]


def aliases(tmp_path: Path) -> dict[str, tuple[str, ...]]:
    (tmp_path / "id_aliases.json").write_text("\n".join(map(json.dumps, ALIASES)), encoding="utf-8")
    return read_aliases(tmp_path / "id_aliases.json")


@pytest.mark.parametrize("case", CASES)
def test_both_versions_print_what_the_official_scripts_print(tmp_path: Path, case: str) -> None:
    row, (answer, facts, evidence), first, second = CASES[case]
    predictions = {"answer": {"q": answer}, "sp": {"q": facts}, "evidence": {"q": evidence}}
    for names, expected in ((None, first), (aliases(tmp_path), second)):
        figures = evaluate(predictions, [row], names)
        assert [round(100 * figures[name], 2) for name in NAMES] == expected


def test_parts_without_a_prediction_count_nothing() -> None:
    rows = [gold("a"), gold("b")]
    both = {"answer": {"a": "John Doe", "b": "John Doe"}, "sp": {"a": rows[0]["supporting_facts"]}, "evidence": {}}
    figures = evaluate(both, rows)
    assert (figures["em"], figures["sp_em"], figures["evi_em"], figures["joint_em"]) == (1.0, 0.5, 0.0, 0.0)
    assert evaluate({}, rows)["f1"] == 0.0
    with pytest.raises(ValueError, match="at least one question"):
        evaluate(both, [])
    with pytest.raises(ValueError, match="question 'a': expected evidences_id to name the relations"):
        evaluate({"evidence": {"a": []}}, [gold("a", evidences_id=[["Q1", "author", "Q2"]])], {})


def plain(text: str) -> str:
    return " ".join("".join(c for c in text.lower() if c not in string.punctuation).split())


def restated(predicted: list[list[str]], golds: list[list[set[str]]]) -> tuple[Fraction, Fraction]:
    """Count version 1.1 triple by triple: each gold triple is three sets of names."""
    distinct = Counter(tuple(plain(part) for part in triple) for triple in predicted)
    hits = 0
    for triple in distinct:
        hits += any(all(triple[i] in set(map(plain, ways[i])) for i in range(3)) for ways in golds)
    zero = Fraction(0)
    return (
        Fraction(hits, len(distinct)) if distinct else zero,
        Fraction(hits, len(golds)) if golds else zero,
    )


TEXT = st.sampled_from(["The Film", "the film.", "Film", "é", "É", "", "A  b", "a b!", "yes", "J. Doe", "j doe"])


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=4), st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=4), st.data())
def test_evidence_equals_a_count_by_hand(predicted: Any, truth: Any, data: st.DataObject) -> None:
    known = {f"Q{i}": tuple(data.draw(st.lists(TEXT, max_size=2))) for i in range(3)}
    ids = [
        [data.draw(st.sampled_from([*known, "Q9"])), r, data.draw(st.sampled_from([*known, "Q9"]))] for _, r, _ in truth
    ]
    row = gold("q", evidences=[list(triple) for triple in truth], evidences_id=ids)
    figures = evaluate({"evidence": {"q": predicted}}, [row], known)
    ways = [
        [{head, *known.get(a, ())}, {relation}, {tail, *known.get(b, ())}]
        for (head, relation, tail), (a, _, b) in zip(truth, ids, strict=True)
    ]
    precision, recall = restated(predicted, ways)
    assert figures["evi_prec"] == pytest.approx(float(precision)) and figures["evi_recall"] == pytest.approx(
        float(recall)
    )
    first = evaluate({"evidence": {"q": predicted}}, [row])
    ours, theirs = ({tuple(map(plain, triple)) for triple in triples} for triples in (predicted, truth))
    assert first["evi_em"] == float(ours == theirs)
    assert first["evi_prec"] == pytest.approx(len(ours & theirs) / len(ours) if ours else 0.0)
    assert first["evi_recall"] == pytest.approx(len(ours & theirs) / len(theirs) if theirs else 0.0)


@given(
    st.lists(st.tuples(TEXT, st.integers(0, 1)), max_size=4), st.lists(st.tuples(TEXT, st.integers(0, 1)), max_size=4)
)
def test_supporting_facts_equal_a_count_by_hand(predicted: Any, truth: Any) -> None:
    figures = evaluate({"sp": {"q": predicted}}, [gold("q", supporting_facts=truth)])
    lower = [[(title.lower(), number) for title, number in dict.fromkeys(facts)] for facts in (predicted, truth)]
    right = len([fact for fact in lower[0] if fact in lower[1]])
    missed = len([fact for fact in lower[1] if fact not in lower[0]])
    assert figures["sp_prec"] == pytest.approx(right / len(lower[0]) if lower[0] else 0.0)
    assert figures["sp_recall"] == pytest.approx(right / (right + missed) if right + missed else 0.0)
    assert figures["sp_em"] == float(right == len(lower[0]) and missed == 0)


def write_panel(folder: Path, *, with_aliases: bool) -> Path:
    row = gold("q", question="Who?", type="inference", answer="United States of America", answer_id="Q30")
    row["context"] = [["The Film (1950)", ["A film."]], ["John Doe", ["A man."]]]
    plain_row = {**row, "_id": "r", "answer_id": None}
    folder.mkdir(exist_ok=True)
    (folder / "dev.json").write_text(json.dumps([row, plain_row]), encoding="utf-8")
    if with_aliases:
        (folder / "id_aliases.json").write_text("\n".join(map(json.dumps, ALIASES)), encoding="utf-8")
    return folder


def answer_with(data: Path, text: str) -> dict[str, Any]:
    env = gymnasium.make("AgentR1/HotpotQA-v0", split="validation", data=str(data))
    _, reset = env.reset(options={"task": "q"})
    *_, info = env.step(f"answer[{text}]")
    return {"score": info["score"], "scorer": reset["protocol"]["scorer"]}


def test_the_environment_takes_aliases_where_their_file_lies_beside_the_questions(tmp_path: Path) -> None:
    bare = write_panel(tmp_path / "data", with_aliases=False)
    assert answer_with(bare, "American") == {"score": 0.0, "scorer": "2wikimultihop_evaluate.py"}
    before = load_questions(bare / "dev.json").content_hash
    write_panel(bare, with_aliases=True)  # found although the questions were loaded before
    expected = {"score": 1.0, "scorer": "2wikimultihop_evaluate_v1.1.py"}
    assert answer_with(bare, "American") == answer_with(bare / "dev.json", "the U.S.") == expected
    questions = load_questions(bare / "dev.json")
    assert questions[0].answers[0] == "United States of America" and len(questions[0].answers) == 5
    assert questions[1].answers == ("United States of America",)
    assert questions.content_hash != before, "other accepted answers are another panel"


def test_a_damaged_file_of_aliases_is_named(tmp_path: Path) -> None:
    folder = write_panel(tmp_path / "data", with_aliases=False)
    (folder / "id_aliases.json").write_text('{"Q_id": "Q30", "aliases": "USA", "demonyms": []}')
    with pytest.raises(DataError, match=r"id_aliases\.json, line 1, field aliases: expected a list of strings"):
        load_questions(folder, split="validation")
