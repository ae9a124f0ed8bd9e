"""The walks of the original, with the real Lucene: every observation, reward, list and address."""

from collections.abc import Callable
from functools import partial

import pytest

from agent_r1_envs.webshop.env import WebShopEnv
from tests.helpers.webshop import Reader, golden, hostile, real1k, step, walk

WALKS = [
    ("hostile_walk_text.jsonl", hostile),
    ("hostile_walk_text_rich_human.jsonl", partial(hostile, goals="human", observation="text_rich")),
    ("real1k_walk_text.jsonl", real1k),
]


@pytest.mark.parametrize(("name", "make"), WALKS)
def test_replay(name: str, make: Callable[[], WebShopEnv]) -> None:
    env = make()
    for line in walk(name):
        observation, reward, done, info = step(env, line)
        available = {"has_search_bar": info["has_search_bar"], "clickables": info["clickables"]}
        assert (observation, reward, done) == (line["obs"], line["reward"], line["done"])
        assert (available, env.url) == (line["available"], line["url"])
        if "goal" in line:
            assert info["instruction"] == line["goal"]["instruction_text"]
        if "info" in line:
            assert info["reward_info"] == line["info"]
            assert info["success"] == (line["reward"] == 1) and info["score"] == line["reward"]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("hostile_goals_preseed7.json", hostile),
        ("hostile_goals_human_preseed7.json", partial(hostile, goals="human")),
        ("real1k_goals_preseed7.json", real1k),
    ],
)
def test_goals_and_hidden_prices(name: str, make: Callable[[], WebShopEnv]) -> None:
    env, expected = make(), golden(name)
    assert len(env.tasks) == len(expected["goals"])
    for goal, wanted in zip(env.tasks, expected["goals"], strict=True):
        options = list(goal.goal_options) if isinstance(goal.goal_options, tuple) else dict(goal.goal_options)
        found = {field: getattr(goal, field) for field in wanted}
        assert {**found, "attributes": list(goal.attributes), "goal_options": options} == wanted
    catalogue = env.shop.catalogue
    assert {asin: catalogue.hidden_price(catalogue.position_of(asin)) for asin in expected["prices"]} == expected[
        "prices"
    ]


def test_html_reads_like_the_original() -> None:
    """Programs that read the original's HTML find the same texts and the same things to click in ours."""
    for name, make in (WALKS[0], WALKS[2]):
        env = make(observation="html")
        for number, line in enumerate(walk(name)):
            html, *_ = step(env, line)
            if number % 5 == 0:
                page = Reader(html)
                assert (page.text(), page.available()) == (line["obs"], line["available"])


def test_addresses_as_observations() -> None:
    env = hostile(observation="url")
    for line in walk("hostile_walk_text.jsonl"):
        assert step(env, line)[0] == line["url"]
