import hashlib
import itertools
import json
from collections import defaultdict

import pytest

from agent_r1_envs.webshop.catalogue.catalogue import Catalogue
from agent_r1_envs.webshop.catalogue.opening import open_catalogue
from agent_r1_envs.webshop.generator.generator import PANEL, generate
from agent_r1_envs.webshop.generator.words import DEPARTMENTS
from agent_r1_envs.webshop.reward import Judge, matches, process
from tests.data import real_data

HASH = "7386fc31bf15de670a2d3dfcef2a13bf293df4884a2e35280f674823d7022e09"
SPLITS = ("test", "eval", "train")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return open_catalogue()


def test_the_panel_is_pinned(catalogue: Catalogue) -> None:
    """A change of it is a new version of the environment."""
    rows = [[item.row, item.attributes, item.human, item.nouns] for item in generate(PANEL[0], seed=PANEL[1])]
    assert hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest() == HASH
    assert len(catalogue) == PANEL[0] and catalogue.dataset == "synthetic"
    assert {split: len(catalogue.goals("human").places(split)) for split in SPLITS} == {
        "test": 386,
        "eval": 382,
        "train": 2232,
    }


def test_a_seed_gives_a_prefix_of_one_endless_catalogue() -> None:
    assert generate(20, seed=3) == generate(50, seed=3)[:20]
    assert generate(20, seed=3) != generate(20, seed=4)
    assert generate(0, seed=3) == []


@pytest.mark.parametrize("kind", ["human", "synthetic"])
def test_every_goal_can_be_met(catalogue: Catalogue, kind: str) -> None:
    judge = Judge(catalogue)
    # The goals of a product differ in nothing but the values of options, all of which can be chosen.
    for goal in {goal.asin: goal for goal in catalogue.goals(kind)}.values():  # type: ignore[arg-type]
        position = catalogue.position_of(goal.asin)
        wanted = goal.goal_options
        values = list(wanted) if isinstance(wanted, tuple) else list(wanted.values())
        options = {}
        for group, choices in catalogue.product(position).options.items():
            chosen = [value for value in values if value in choices]
            if chosen:
                (options[group],) = chosen
        assert sorted(options.values()) == sorted(values)
        assert judge.score(goal, position, options)[0] == 1.0


def test_look_alikes_do_not_meet_the_goal_of_the_first(catalogue: Catalogue) -> None:
    judge = Judge(catalogue)
    families = defaultdict(list)
    for place in range(len(catalogue)):
        families[catalogue.product(place).name.split()[0]].append(place)
    goals = {goal.asin: goal for goal in catalogue.goals("human")}
    near = []
    for first, *others in families.values():
        goal = goals[catalogue.product(first).asin]
        for other in others:
            choices = catalogue.product(other).options
            best = max(
                judge.score(goal, other, dict(zip(choices, values, strict=True)))[0]
                for values in itertools.product(*choices.values())
            )
            near.append(best)
    assert all(0.3 < score <= 1 for score in near)
    assert sum(score < 1 for score in near) / len(near) > 0.8
    assert all(3 <= len(family) <= 5 for family in list(families.values())[:-1])


def test_splits_share_no_product_and_no_brand(catalogue: Catalogue) -> None:
    brands = []
    for split in SPLITS:
        asins = set()
        for kind in ("human", "synthetic"):
            goals = catalogue.goals(kind)
            asins |= {goals[place].asin for place in goals.places(split)}
        brands.append({catalogue.product(asin).name.split()[0] for asin in asins})
    assert not any(one & other for one, other in itertools.combinations(brands, 2))
    assert min(map(len, brands)) > 50


def test_words_are_not_mistaken_for_each_other() -> None:
    for department in DEPARTMENTS.values():
        pools = [department.attributes, *department.options.values()]
        for pool in pools:
            for one, other in itertools.combinations(pool, 2):
                if {one, other} != {"large", "x-large"}:
                    assert not matches(process(one), process(other)), (one, other)
        values = [value for pool in department.options.values() for value in pool]
        assert len(set(values)) == len(values)


def test_prices_lie_below_the_highest_cap(catalogue: Catalogue) -> None:
    prices = [catalogue.hidden_price(place) for place in range(len(catalogue))]
    assert 0 < min(prices) and max(prices) < 960
    ranged = [place for place in range(len(catalogue)) if len(catalogue.product(place).prices) == 2]
    assert len(ranged) > 100
    for place in ranged:
        low, high = catalogue.product(place).prices
        assert low <= catalogue.hidden_price(place) <= high


def test_no_text_is_from_the_real_catalogue(catalogue: Catalogue) -> None:
    rows = json.loads((real_data("webshop") / "items_shuffle_1000.json").read_text())
    real = {row["name"].lower() for row in rows} | {
        row["full_description"].lower() for row in rows if row["full_description"]
    }
    ours = [catalogue.product(place) for place in range(0, len(catalogue), 7)]
    assert not any(product.name.lower() in text for product in ours for text in real)
    assert not {product.asin for product in ours} & {row["asin"] for row in rows}
