"""A hundred thousand random and hostile actions: nothing raises, and what is invalid changes nothing."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.contract import check_random_actions, check_step
from tests.helpers.webshop import hostile

WORDS = (
    "lamp", "red", "<r>", "<c>", "<a>", "<q>", "beauty", "garden", "wall", "art", "search_results", "item_page",
    "item_sub_page", "done", "", " ", "b000000001", "size: small", "color: red", "< prev", "next >", "buy now",
    "search", "description", "attributes", "set [2]", "28\" x 28\"", "\u0130", "\ufb01", "漢", "\x00", "\x85",
    "\u2028", "\n", "{}", "'", "/", "http://127.0.0.1:3000/done/", "[SEP]", "None", "%s", "\\u0041", "9" * 40,
)  # fmt: skip


def actions(seed: int, info: list[dict[str, Any]]) -> Iterator[str]:
    """Yield actions; ``info`` holds the newest one."""
    rng = random.Random(seed)
    while True:
        clickable = info[0]["clickables"]
        kind = rng.random()
        if kind < 0.6 and not info[0]["has_search_bar"]:
            yield f"click[{rng.choice(clickable)}]"
        elif kind < 0.7:
            yield f"search[{' '.join(rng.choices(WORDS, k=rng.randrange(1, 5)))}]"
        elif kind < 0.8:
            yield f"{rng.choice(('click', 'search', 'Click', 'buy', ''))}[{rng.choice(WORDS)}]{rng.choice(WORDS)}"
        elif kind < 0.99:
            yield "".join(rng.choices(("click", "search", "[", "]", *WORDS), k=rng.randrange(8)))
        else:
            yield rng.choice(("[", "]", "[]", "click[", "search[a", "\ud800", "search[" + "a b " * 9)) * rng.randrange(
                9000
            )


@pytest.mark.parametrize(("seed", "share"), [(1, 0.2), pytest.param(3, 0.8, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("rules", "mode", "count"),
    [
        ("original", "text", 60_000),
        ("original", "text_rich", 15_000),
        ("revised", "text", 20_000),
        ("revised", "html", 5_000),
    ],
)
def test_nothing_raises(rules: str, mode: Any, count: int, seed: int, share: float) -> None:
    count = int(share * count)
    env = hostile(rules=rules, observation=mode, show_attrs=True)
    newest = [env.reset(seed=0)[1]]
    seen = {"invalid": 0, "bought": 0}
    for _, action in zip(range(count), actions(seed, newest), strict=False):
        before = env.last_observation
        observation, reward, terminated, _, info = env.step(action)
        newest[0] = info
        if "invalid_action" in info:
            seen["invalid"] += 1
            assert reward == 0 and not terminated
            assert rules == "revised" or observation == before
        if terminated:
            seen["bought"] += 1
            newest[0] = env.reset()[1]
    assert min(seen.values()) > count / 200


@pytest.mark.parametrize("rules", ["original", "revised"])
def test_the_contract_holds(rules: str) -> None:
    env = hostile(rules=rules, show_attrs=True)
    newest = [env.reset(seed=0)[1]]
    for _, action in zip(range(1500), actions(2, newest), strict=False):
        *_, terminated, _, newest[0] = check_step(env, action)
        if terminated:
            newest[0] = env.reset()[1]
    check_random_actions(env, actions=500)
