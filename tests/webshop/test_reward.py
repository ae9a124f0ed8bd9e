"""Scores of purchases: those of the original, and the strict ones."""

import dataclasses
import itertools
import random
from collections.abc import Mapping
from typing import Any

import pytest

from agent_r1_envs.webshop.catalogue.data import Goal
from agent_r1_envs.webshop.env import WebShopEnv
from agent_r1_envs.webshop.expert import best_purchase
from agent_r1_envs.webshop.pages.contents import item
from agent_r1_envs.webshop.reward import Judge
from tests.helpers.webshop import golden, hostile, real1k


def goal_of(record: Mapping[str, Any], name: str) -> Goal:
    options = record["goal_options"]
    return Goal(
        **{
            **record,
            "id": name,
            "attributes": tuple(record["attributes"]),
            "goal_options": options if isinstance(options, dict) else tuple(options),
        }
    )


class Priced:
    """The catalogue, but for the hidden price that the original had drawn."""

    def __init__(self, catalogue: Any) -> None:
        self._catalogue = catalogue
        self.price = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalogue, name)

    def hidden_price(self, position: int) -> float:
        return self.price


def test_two_hundred_purchases_of_the_original() -> None:
    catalogue = Priced(real1k(nouns="real1k_nouns_rewards").shop.catalogue)
    judge = Judge(catalogue)  # type: ignore[arg-type]
    for number, record in enumerate(golden("real1k_rewards_200.json")):
        catalogue.price = record["price"]
        position = catalogue.position_of(record["purchased_asin"])
        score, components = judge.score(goal_of(record["goal"], str(number)), position, record["options"])
        assert (score, components) == (record["reward"], record["reward_info"])


def test_type_thresholds() -> None:
    env = real1k()
    judge, catalogue = env.judge, env.shop.catalogue
    goal = env.tasks[0]
    seen = set()
    for position in range(len(catalogue)):
        components = judge.score(goal, position, {})[1]
        title, kind = components["title_score"], components["r_type"]
        matched = components["query_match"] or components["category_match"] or title > 0.2
        assert kind == (0.0 if title == 0 else 0.1 if title < 0.1 else 1.0 if matched else 0.5)
        seen.add(kind)
    assert seen == {0.0, 0.1, 0.5, 1.0}


def test_strict_options() -> None:
    env = hostile(reward="strict")
    goal = next(goal for goal in env.tasks if goal.goal_options == {"color": "dark blue", "size": "x-large"})
    position = env.shop.position_of(goal.asin)

    def hits(judge: Judge, **options: str) -> float:
        return judge.score(goal, position, options)[1]["r_option"]

    assert hits(env.judge, color="dark blue", size="xx-large") == 0.5
    assert hits(env.judge, color="x-large", size="dark blue") == 0.0, "the groups count"
    assert hits(env.judge, color="dark blue", size="x-large") == 1.0
    by_people = dataclasses.replace(goal, id="by people", goal_options=("x-large",))
    assert hostile().judge.option_hits(by_people, {"size": "xx-large"}) == [True]
    assert env.judge.option_hits(by_people, {"size": "xx-large"}) == [False]


def test_strict_options_of_people() -> None:
    env = hostile(goals="human", reward="strict")
    goal = next(goal for goal in env.tasks if goal.goal_options == ('28" x 28"', "red"))
    position = env.shop.position_of(goal.asin)
    assert env.judge.score(goal, position, {"size": '28" x 28"', "color": "red"})[1]["r_option"] == 1.0
    assert env.judge.score(goal, position, {"size": '28" x 28"', "color": "dark blue"})[1]["r_option"] == 0.5


def by_brute_force(env: WebShopEnv, goal: Goal) -> float:
    """Try every choice that can be clicked together."""
    position = env.shop.position_of(goal.asin)
    view = env.shop.views.item(position)
    groups: dict[str, list[str | None]] = {}
    buttons = {element.key for element in item(env.shop.catalogue.product(position), attributes=True, qualified=False)
               if not element.group}  # fmt: skip
    for key, element in view.targets.items():
        if element.group and key not in buttons and f"click[{key}]" in view.commands:
            groups.setdefault(element.group, [None]).append(element.value)
    return max(
        env.judge.score(goal, position, {g: v for g, v in zip(groups, values, strict=True) if v is not None})[0]
        for values in itertools.product(*groups.values())
    )


@pytest.mark.parametrize("reward", ["original", "strict"])
@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_the_best_purchase_is_the_best(reward: Any, kind: Any) -> None:
    rng = random.Random(0)
    for env in (hostile(goals=kind, reward=reward), real1k(goals=kind, reward=reward)):
        goals = rng.sample(list(env.tasks), min(len(env.tasks), 25))
        for goal in goals:
            choices = 1
            for values in env.shop.catalogue.product(goal.asin).options.values():
                choices *= len(values) + 1
            if choices <= 400:
                assert best_purchase(env.shop, env.judge, goal).score == by_brute_force(env, goal)
