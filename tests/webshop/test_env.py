"""The environment: arguments, states, sampling, addresses, pictures and what it says about itself."""

import json
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

import agent_r1_envs  # noqa: F401
from agent_r1_envs import restore, snapshot
from agent_r1_envs.webshop.env import WebShopEnv
from tests.helpers.contract import check_reset, check_step
from tests.helpers.webshop import Reader, Strict, hostile, real1k


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "dev"}, "split must be one of"),
        ({"goals": "all"}, "goals must be one of"),
        ({"observation": "image"}, "observation must be one of"),
        ({"rules": "old"}, "rules must be"),
        ({"reward": "f1"}, "reward must be one of"),
        ({"sampling": "zipf"}, "sampling must be one of"),
        ({"render_mode": "human"}, "render_mode is"),
        ({"max_length": 0}, "max_length must be"),
        ({"order": "reverse"}, "order is one of"),
        ({"shard": (2, 2)}, "shard"),
        ({"data": "no/such/folder"}, "no/such/folder"),
    ],
)
def test_wrong_arguments_raise(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        WebShopEnv(**arguments)


def test_a_state_goes_on_alike_in_another_env() -> None:
    here, there = hostile(), hostile(order="shuffled", shard=(1, 2))
    here.reset(options={"task": 3})
    done = ["search[<c> garden]", "click[next >]", "click[b000000011]", "click[features]"]
    for action in done:
        here.step(action)
        state = pickle.loads(pickle.dumps(here.get_state()))
        there.set_state(state)
        assert there.get_state() == here.get_state()
        for probe in ("click[< prev]", "click[back to search]", "click[buy now]", "noop"):
            one, two = hostile(), hostile()
            one.set_state(state)
            two.set_state(there.get_state())
            assert one.step(probe) == two.step(probe)
    assert len(pickle.dumps(here.get_state()["world"])) < 500


def test_random_lists_go_on_alike_too() -> None:
    here, there = real1k(), real1k()
    here.reset(options={"task": 3})
    here.step("search[<r>]")
    there.set_state(here.get_state())
    assert there.step("click[next >]") == here.step("click[next >]")
    assert there.step("click[next >]") == here.step("click[next >]")
    fresh = real1k()
    for env in (here, fresh):  # what an env did for another task before makes no difference
        env.reset(options={"task": 4})
    assert here.step("search[<r>]") == fresh.step("search[<r>]") != there.step("search[<r>]")


def test_a_purchase_is_part_of_the_state() -> None:
    env, other = hostile(), hostile()
    env.reset(options={"task": 3})
    while (action := env.expert_action()) is not None:
        *_, info = env.step(action)
    other.set_state(env.get_state())
    assert other.expert_action() is None
    assert other._info({})["score"] == info["score"] == env.best_purchase().score
    env.reset(options={"task": 3})
    assert env._info({})["score"] == 0.0


def test_snapshots_of_a_stack() -> None:
    env = gymnasium.make("AgentR1/WebShop-v0", split="test")
    env.reset(seed=2)
    env.step(env.unwrapped.expert_action())
    saved = snapshot(env)
    once = env.step(env.unwrapped.expert_action())
    restore(env, saved)
    assert env.step(env.unwrapped.expert_action()) == once


def test_positions_ids_and_splits() -> None:
    whole = real1k()
    assert len(whole.tasks) == 6910
    for split, first in (("test", 0), ("eval", 500), ("train", 1500)):
        env = real1k(split)
        for choice in (1, np.int64(1), env.tasks.ids[1]):
            _, info = env.reset(options={"task": choice})
            assert info["task_id"] == whole.tasks.ids[first + 1]
            assert env.url == f"http://127.0.0.1:3000/{first + 1}", "the place among all goals, as in the original"
    parts = [set(real1k(split).tasks.ids) for split in ("test", "eval", "train")]
    assert [len(part) for part in parts] == [500, 1000, 5410] and len(set.union(*parts)) == 6910


def draws(env: WebShopEnv, count: int) -> list[int]:
    env.reset(seed=0)
    found = [env.tasks.index_of(env.task_id)]
    for _ in range(count):
        env.reset()
        found.append(env.tasks.index_of(env.task_id))
    return found


def test_sampling() -> None:
    for sampling in ("uniform", "weighted", "original"):
        assert draws(hostile(sampling=sampling), 20) == draws(hostile(sampling=sampling), 20)
    people = {sampling: draws(hostile(goals="human", sampling=sampling), 2000) for sampling in ("weighted", "original")}
    assert np.bincount(people["weighted"], minlength=4) / 2001 == pytest.approx([0.25] * 4, abs=0.05)
    # Four goals of one weight: the first is never drawn, the last has two shares.
    assert np.bincount(people["original"], minlength=4) / 2001 == pytest.approx([0, 0.25, 0.25, 0.5], abs=0.05)
    sharded = draws(real1k(sampling="weighted", shard=(1, 3)), 200)
    assert {position % 3 for position in sharded} == {1}
    weights = np.array([goal.weight for goal in real1k().tasks])
    mean = np.mean(weights[draws(real1k(sampling="weighted"), 2000)])
    assert mean == pytest.approx((weights**2).sum() / weights.sum(), rel=0.25) and mean > 2 * weights.mean()


def test_a_given_task_draws_no_random_number() -> None:
    env = hostile(sampling="weighted")
    env.reset(seed=1)
    before = env.get_state()["rng"]
    env.reset(options={"task": 5})
    assert env.get_state()["rng"] == before
    with pytest.raises(ValueError, match="'tsak'"):
        env.reset(options={"tsak": 5})


def test_what_it_says_about_itself() -> None:
    _, info = real1k(rules={"hide_score": True}, reward="strict", goals="human").reset(seed=0)
    protocol = info["protocol"]
    assert protocol["rules"]["hide_score"] is True and protocol["rules"]["literal_queries"] is False
    expected = {"reward": "strict", "goal_kind": "human", "products": 1000, "catalogue_seed": 7, "nouns": "given"}
    assert expected.items() <= protocol.items()
    assert len(protocol["catalogue_hash"]) == 64
    json.dumps(protocol)
    for rules in ("original", "revised"):
        assert hostile(rules=rules).reset(seed=0)[1]["protocol"]["rules"] == rules


def test_pictures() -> None:
    env = hostile(render_mode="ansi")
    env.reset(options={"task": 0})
    env.step("search[Acme pillow]")
    env.step("click[b000000001]")
    env.step("click[red]")
    shown = env.render()
    assert shown is not None and "(x) red" in shown and "( ) dark blue" in shown and "[Buy Now]" in shown
    page = hostile(render_mode="html")
    page.set_state(env.get_state())
    html = page.render()
    assert html is not None
    checker = Strict()
    checker.feed(html)
    assert [radio["value"] for radio in Reader(html).page.select("input[checked]")] == ["red"]


@pytest.mark.parametrize("mode", ["text", "text_rich", "html", "url"])
@pytest.mark.parametrize("rules", ["original", "revised"])
def test_the_expert_reaches_the_best_purchase(mode: Any, rules: str) -> None:
    env = hostile(observation=mode, rules=rules)
    for task in range(0, len(env.tasks), 5):
        check_reset(env, options={"task": task})
        terminated = False
        while not terminated:
            *_, terminated, _, info = check_step(env, env.expert_action())
            assert "invalid_action" not in info
        assert info["score"] == env.best_purchase().score
        if rules == "revised":
            assert info["score"] == 1.0 or env.task.goal_options["color"] not in ("red", "small")


def test_the_expert_finds_its_way_back() -> None:
    """From any page, whatever was done before."""
    env = real1k()
    for task, detour in enumerate(
        (["search[shoes]"], ["search[shoes]", "click[next >]"], ["search[<q> women's sandals]"], ["search[zzzz]"])
    ):
        env.reset(options={"task": task})
        for action in detour:
            *_, info = env.step(action)
        if "click[next >]" not in detour and len(info["clickables"]) > 5:
            for action in (f"click[{info['clickables'][4]}]", "click[features]"):
                env.step(action)
        for _ in range(12):
            *_, terminated, _, info = env.step(env.expert_action())
            if terminated:
                break
        assert info["score"] == env.best_purchase().score


def test_a_slice_of_the_real_goals_to_their_maximum() -> None:
    env = real1k()
    for task in range(0, len(env.tasks), 37):
        env.reset(options={"task": task})
        while (action := env.expert_action()) is not None:
            *_, info = env.step(action)
        assert info["score"] == env.best_purchase().score and env.turn <= 15
