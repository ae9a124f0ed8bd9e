import itertools
import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.cache import clear_cache
from agent_r1_envs.tasks import TaskSet
from agent_r1_envs.webshop import tasks as goal_tasks
from agent_r1_envs.webshop.catalogue.data import Goal
from agent_r1_envs.webshop.catalogue.goals import (
    KINDS,
    WeightedSampler,
    combination,
    combinations,
    split_ranges,
    synthetic_weights,
)
from agent_r1_envs.webshop.catalogue.opening import open_catalogue
from agent_r1_envs.webshop.tasks import GoalTasks
from tests.data import real_data
from tests.helpers.webshop_files import product, write

OPTIONS = st.dictionaries(st.sampled_from("size color style".split()), st.lists(st.sampled_from("abcd"), max_size=4))


def plain(goal: Goal) -> dict[str, Any]:
    """Return a goal as the original has it."""
    values = {name: getattr(goal, name) for name in Goal.__slots__ if name != "id"}
    options = goal.goal_options
    return values | {
        "attributes": list(goal.attributes),
        "goal_options": list(options) if isinstance(options, tuple) else dict(options),
    }


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        ("hostile", "hostile_goals_preseed7.json", "synthetic"),
        ("hostile", "hostile_goals_human_preseed7.json", "human"),
        (".", "real1k_goals_preseed7.json", "synthetic"),
    ],
)
def test_goals_and_hidden_prices_are_the_originals(data: str, name: str, kind: Any) -> None:
    folder = real_data("webshop")
    golden = json.loads((folder / "golden" / name).read_text())
    random.seed(1)
    before = random.getstate()
    catalogue = open_catalogue(folder / data, catalogue_seed=7, nouns="fallback", store="memory")
    goals = list(catalogue.goals(kind))
    assert [json.dumps(plain(goal)) for goal in goals] == [json.dumps(_ordered(goal)) for goal in golden["goals"]]
    assert {catalogue.product(place).asin: catalogue.hidden_price(place) for place in range(len(catalogue))} == (
        golden["prices"]
    )
    assert len({goal.id for goal in goals}) == len(goals)
    assert random.getstate() == before


def _ordered(goal: dict[str, Any]) -> dict[str, Any]:
    return {name: float(goal[name]) if name in ("price_upper", "weight") else goal[name] for name in goal}


def test_a_seed_changes_prices_and_nothing_else() -> None:
    first, second = (open_catalogue(catalogue_seed=seed).goals("human") for seed in (1, 2))
    assert [goal.id for goal in first[:300]] == [goal.id for goal in second[:300]]
    assert [goal.price_upper for goal in first[:300]] != [goal.price_upper for goal in second[:300]]
    clear_cache()
    assert open_catalogue(catalogue_seed=1).goals("human")[:300] == first[:300]


@given(OPTIONS)
def test_combinations_are_those_of_itertools(options: dict[str, list[str]]) -> None:
    names = sorted(options)
    expected = [dict(zip(names, values, strict=True)) for values in itertools.product(*(options[n] for n in names))]
    found = [combination(options, number) for number in range(combinations(options))]
    assert [list(chosen.items()) for chosen in found] == [list(chosen.items()) for chosen in expected]


@given(st.lists(st.tuples(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3), st.integers(0, 3)), max_size=6))
def test_weights_are_the_mean_rarity_of_the_attributes(sources: list[tuple[list[str], int]]) -> None:
    goals = [attributes for attributes, count in sources for _ in range(count)]
    counted: dict[str, int] = defaultdict(int)
    for attribute in itertools.chain.from_iterable(goals):
        counted[attribute] += 1
    expected = [sum(1.0 / counted[one] for one in attributes) / len(attributes) for attributes in goals]
    weights = synthetic_weights(sources)
    assert np.repeat(weights, [count for _, count in sources]).tolist() == expected


def test_a_product_without_a_way_to_choose_has_no_synthetic_goal(tmp_path: Path) -> None:
    entry = {"attributes": ["a"], "instruction": "x", "instruction_attributes": ["a"]}
    rows = [product("B1", customization_options={"Size": []}), product("B2", customization_options=None)]
    folder = write(tmp_path, rows, {"B1": entry, "B2": entry}, {"B2": [{**entry, "instruction_options": []}] * 2})
    catalogue = open_catalogue(folder, nouns="fallback", store="memory")
    assert [goal.id for goal in catalogue.goals("synthetic")] == ["synthetic-B2-0"]
    assert sorted(goal.id for goal in catalogue.goals("human")) == ["human-B2-0", "human-B2-1"]
    with pytest.raises(ValueError, match="human, synthetic"):
        catalogue.goals("robot")  # type: ignore[arg-type]


@given(st.integers(0, 20_000))
def test_splits_are_disjoint_and_cover_everything(total: int) -> None:
    ranges = split_ranges(total)
    assert sorted([*ranges["test"], *ranges["eval"], *ranges["train"]]) == list(ranges["all"]) == list(range(total))
    if total >= 3000:
        assert (ranges["test"], ranges["eval"]) == (range(500), range(500, 1500))
    if total >= 3:
        assert all(map(len, ranges.values()))


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(ValueError, match="test, eval, train, all; got 'dev'"):
        open_catalogue().goals("human").places("dev")


def test_validation_is_another_name_of_eval() -> None:
    one, other = (GoalTasks(open_catalogue(), "human", split) for split in ("eval", "validation"))
    assert (one.split, one.content_hash, list(one.places)) == (other.split, other.content_hash, list(other.places))


def test_weights_decide_how_often_a_goal_is_drawn() -> None:
    rng = random.Random(0)
    for original, expected in ((False, [1, 1, 2, 4]), (True, [0, 1, 1, 6])):
        sampler = WeightedSampler([1.0, 1.0, 2.0, 4.0], original=original)
        drawn = Counter(sampler.draw(rng.random()) for _ in range(16_000))
        assert [round(drawn[place] / 2000) for place in range(4)] == expected


def test_the_original_never_draws_the_first_goal() -> None:
    sampler = WeightedSampler([1.0] * 4, original=True)
    assert [sampler.draw(fraction / 4) for fraction in range(4)] == [1, 2, 3, 3]
    assert WeightedSampler([1.0] * 4).draw(0.0) == 0
    assert WeightedSampler([1.0] * 4).draw(np.nextafter(1.0, 0.0)) == 3
    with pytest.raises(ValueError, match="positive sum"):
        WeightedSampler([0.0])


def test_tasks_of_a_split_are_made_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goal_tasks, "_REMEMBERED", 3)
    catalogue = open_catalogue()
    for kind, split in (("human", "all"), ("synthetic", "test")):
        tasks = GoalTasks(catalogue, kind, split)  # type: ignore[arg-type]
        plain = TaskSet(list(tasks), dataset="synthetic", split=split, ids=list(tasks.ids))
        assert list(tasks.ids) == [goal.id for goal in tasks] == list(plain.ids) and tasks.ids[-1] == tasks[-1].id
        assert tasks[3:5] == plain[3:5] and tasks.ids[3:5] == plain.ids[3:5]
        assert [tasks.index_of(id) for id in plain.ids[::50]] == list(range(0, len(plain), 50))
        assert len(tasks._made) <= 3
    hashes = {GoalTasks(catalogue, kind, split).content_hash for kind in KINDS for split in ("test", "eval", "all")}
    assert len(hashes) == 6
    assert GoalTasks(open_catalogue(catalogue_seed=1), "human", "test").content_hash not in hashes


def test_an_id_of_no_goal_of_the_split_is_named_with_near_ones() -> None:
    tasks = GoalTasks(open_catalogue(), "human", "test")
    with pytest.raises(KeyError, match="did you mean .*'human-SYN0000000-0'"):
        tasks.index_of("human-SYN000000-0")
    other = GoalTasks(open_catalogue(), "human", "train").ids[0]
    for wrong in (other, "synthetic-SYN0000000-99999", "", "human-SYN0000000-1", "human-SYN0000000-00", "-", "---"):
        with pytest.raises(KeyError, match="no task"):
            tasks.index_of(wrong)
