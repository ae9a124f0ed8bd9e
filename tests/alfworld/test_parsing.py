"""Game files: what is refused, in which words, and that nothing in them is ever run."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_r1_envs.alfworld.official.goals import read_goal
from agent_r1_envs.alfworld.official.parsing import kind_of, names_of, parse_game, read_game_file
from agent_r1_envs.alfworld.official.pddl import read_problem
from agent_r1_envs.errors import DataError
from tests.alfworld.games import fixture_files, raw_game
from tests.data import real_data


@pytest.fixture(scope="module")
def raw() -> dict[str, Any]:
    return raw_game(fixture_files()[7])


def changed(raw: dict[str, Any], part: str, old: str, new: str) -> dict[str, Any]:
    assert old in raw[part]
    return {**raw, part: raw[part].replace(old, new)}


def test_every_fixture_is_read_the_same_in_both_dialects() -> None:
    for old, new in zip(fixture_files("2.1.1"), fixture_files("2.1.3"), strict=True):
        one, other = parse_game(raw_game(old)), parse_game(raw_game(new))
        assert (one.dialect, other.dialect) == ("2.1.1", "2.1.3")
        assert one.start == other.start and one.goal == other.goal and one.objects == other.objects
        assert one.goal.task_type == old.parent.parent.name.split("-")[0]
        assert one.goal.target == old.parent.parent.name.split("-")[1].lower()


def test_a_game_of_several_agents_is_refused_by_name() -> None:
    content = (real_data("alfworld") / "negative_multi_agent" / "game.tw-pddl").read_bytes()
    with pytest.raises(DataError, match=r"expected one agent, found 3 \(alice, bob, charlie\)"):
        parse_game(read_game_file(content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "bad JSON"),
        (b"[]", "found list"),
        (b"\xff\xfe", "bad JSON"),
        (b'{"pddl_domain": 1}', "pddl_domain: expected a text, found int"),
        (b'{"pddl_domain": "", "grammar": ""}', "pddl_problem: expected a text, found NoneType"),
        (b"[" * 100_000, "bad JSON"),
    ],
)
def test_what_is_no_game_file(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_game_file(content)


@pytest.mark.parametrize(
    ("part", "old", "new", "message"),
    [
        ("pddl_domain", "(not (holdsAny ?a))  ; agent's", "(holdsAny ?a) ; agent's", "backend='textworld'"),
        ("grammar", "You close the {r.name}.", "You shut the {r.name}.", "backend='textworld'"),
        ("grammar", "You close the {r.name}.", "{__import__('os').system('true')}", "backend='textworld'"),
        ("grammar", "Your task is to: ", "Your task is to: {__import__('os').getpid()} ", "markup"),
        ("grammar", "Your task is to: ", "Your task is to: #look.feedback# ", "markup"),
        ("grammar", '"task"', '"tusk"', "a rule 'task'"),
        ("grammar", "Your task is to: ", "Do: ", "begins with 'Your task is to: '"),
        ("pddl_problem", "(define", "(define (", "balanced brackets"),
        ("pddl_problem", "(:init", ") (:init", "pddl_problem"),
        ("pddl_problem", "(:goal", "(:gaol", r"a section \(:goal ...\)"),
        ("pddl_problem", "(:init", "(:init (holds agent1 x)", "found 'holds'"),
        ("pddl_problem", "(:init", "(:init (openable)", "expected 1 arguments of 'openable', found 0"),
        ("pddl_problem", "(:init", "(:init (f (g (h x)))", "expected a flat fact"),
        ("pddl_problem", "(:init", "(:init x", "expected a fact in brackets"),
        ("pddl_problem", "agent1 - agent", "agent1 - agent bob - agent", "found 2"),
        ("pddl_problem", "agent1 - agent", "", r"expected one agent, found 0"),
        ("pddl_problem", "(atLocation agent1", "(atLocation bob", "one place of the agent, found 0"),
        ("pddl_problem", "(inReceptacle ?o ?r)", "(onTop ?o ?r)", "one of the six task types"),
        ("pddl_problem", "(exists (?r - receptacle)", "(forall (?r - receptacle)", "pddl_problem, :goal"),
    ],
)
def test_damage_is_named(raw: dict[str, Any], part: str, old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_game(changed(raw, part, old, new))


def test_contradictions_are_named(raw: dict[str, Any]) -> None:
    receptacle = re.search(r"\(receptacleAtLocation (\S+) ", raw["pddl_problem"])
    assert receptacle is not None
    twice = changed(raw, "pddl_problem", "(:init", f"(:init (receptacleAtLocation {receptacle[1]} loc_bar_99)")
    with pytest.raises(DataError, match="expected one receptacleatlocation of"):
        parse_game(twice)
    nowhere = changed(raw, "pddl_problem", "(:init", "(:init (inReceptacle Apple_bar_1 Attic_bar_1)")
    with pytest.raises(DataError, match="expected a place of receptacle 'attic_bar_1'"):
        parse_game(nowhere)


def test_code_in_a_grammar_does_not_run(raw: dict[str, Any], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for place in ("You close the {r.name}.", "Your task is to: "):
        evil = changed(raw, "grammar", place, f"{place}{{__import__('pathlib').Path({str(mark)!r}).touch()}}")
        with pytest.raises(DataError):
            parse_game(evil)
    assert not mark.exists()


def test_line_ends_and_comments_do_not_matter(raw: dict[str, Any]) -> None:
    other = {key: value.replace("\n", " \r\n") for key, value in raw.items() if isinstance(value, str)}
    other["pddl_domain"] = other["pddl_domain"].replace("(:predicates", "; (a comment\n(:predicates")
    assert parse_game(other) == parse_game(raw)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["pddl_problem", "grammar", "pddl_domain"]))
def test_random_damage_raises_nothing_else(seed: int, part: str) -> None:
    rng = random.Random(seed)
    raw = raw_game(fixture_files()[seed % 36])
    text = raw[part]
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(["", "(", ")", ";", "-", '"', "?", "{", text[:200]]) + text[place + 1 :]
    try:
        parse_game({**raw, part: text})
    except DataError as error:
        assert len(str(error)) < 1000


@given(st.text(alphabet="()ab -?;:=\n", max_size=80))
def test_any_text_as_a_problem(text: str) -> None:
    with pytest.raises(DataError):
        read_problem(text)


def test_goals_are_read_whatever_their_order_and_names() -> None:
    put = ["and", ["inreceptacle", "?x", "?y"], ["receptacletype", "?y", "bedtype"], ["objecttype", "?x", "penciltype"]]
    goal = read_goal(["exists", ["?x", "-", "object"], ["exists", ["?y", "-", "receptacle"], put]])
    assert (goal.task_type, goal.target, goal.receptacle) == ("pick_and_place_simple", "pencil", "bed")
    with pytest.raises(DataError):  # the same object twice is no pair
        read_goal(
            ["exists", ["?x", "?y", "-", "object"], [*put, ["objecttype", "?x", "penciltype"], ["isclean", "?y"]]]
        )


def test_names_count_downwards() -> None:
    ids = ["mug_bar_2", "mug_bar_10", "sink_bar_1_bar_sinkbasin", "sink_bar_1", "agent1"]
    names = names_of(ids)
    assert names == {
        "agent1": "agent1 ",
        "mug_bar_10": "mug 2",
        "mug_bar_2": "mug 1",
        "sink_bar_1": "sink 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
    }
    assert kind_of("sinkbasin 1") == "sinkbasin"
