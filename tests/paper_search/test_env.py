"""The environment: calls, rewards, pool, cut-off, failures."""

import json
import pickle
from typing import Any

import gymnasium
import pytest

from agent_r1_envs import restore, snapshot
from agent_r1_envs.paper_search.env import PaperSearchEnv
from tests.helpers.contract import base, check_reset, check_step
from tests.helpers.papers import RECORDS, Flaky, Grades, small_backend, small_env

A, B, C, D, P5, LATER = (record.paper.id for record in RECORDS)


def rewards(info: dict[str, Any]) -> list[float]:
    return [call["reward"] for call in info["calls"]]


def test_a_call_earns_the_three_best_of_its_new_papers() -> None:
    env = small_env({A: 0.9, B: 0.25, D: 0.125, LATER: 0.5})
    observation, reward, terminated, _, info = check_step(env, "search[sand]")
    assert reward == 0.9 + 0.5 + 0.25 and not terminated
    assert observation.startswith("search[sand]: 4 papers found, 4 new in the pool\n\nPool: 4 papers, 4 shown\n")
    assert f"[{A}] (0.90) [NEW] Sieves\nWe sort sand with sieves." in observation
    assert [paper["id"] for paper in info["pool"]] == [A, LATER, B, D] and info["pool_size"] == 4
    _, reward, *_, info = check_step(env, f"expand[{A}]")  # its citations are B, C, D and the later one
    assert reward == 0.5 and info["expanded"] == [A]
    assert env.get_state()["world"].pool[A].expanded
    _, reward, *_ = check_step(env, "search[gravel]")
    assert reward == 0.0, "found again is not found anew"


@pytest.mark.parametrize(
    "repeated",
    ["search[sand]", "search[  SAND ]", f"expand[{A}]", f"expand[arXiv:{A}v3]", f"expand[{P5}]", "expand[x]"],
)
def test_repetitions_and_unknown_papers_cost_half_a_point_and_are_valid(repeated: str) -> None:
    env = small_env()
    check_step(env, "search[sand]")
    check_step(env, f"expand[{A}]")
    before = env.get_state()["world"].pool
    observation, reward, *_, info = check_step(env, repeated)
    assert reward == -0.5 and "invalid_action" not in info and info["reward_info"]["repeats"] == 1.0
    assert info["calls"][0]["ok"] and env.get_state()["world"].pool == before
    assert "before" in observation or "no paper of the pool" in observation


def test_calls_of_a_turn_are_parallel() -> None:
    env = small_env({A: 1.0, B: 0.5, D: 0.25, LATER: 0.0, C: 0.75})
    action = f"search[sand]\nsearch[sand sieves]\nsearch[sand]\nexpand[{A}]\nsearch[gravel]"
    _, reward, *_, info = check_step(env, action)
    assert rewards(info) == [1.75, 0.0, -0.5, -0.5, 0.75], (
        "a paper belongs to the first call; A was not in the pool yet"
    )
    assert reward == sum(rewards(info)) and info["queries"] == ["sand", "sand sieves", "gravel"]
    assert len(env.selector.batches) == 1, "one batch a turn"
    _, _, _, _, info = check_step(env, "\n".join(["search[a]"] * 6))
    assert "at most 5 calls" in info["invalid_action"]


def test_costs() -> None:
    env = small_env({A: 1.0}, search_cost=0.125, expand_cost=0.25, relevance=Grades({A: 1.0}))
    assert check_step(env, "search[sieves]")[1] == 0.875
    assert check_step(env, f"expand[{A}]")[1] == -0.25
    assert check_step(env, f"expand[{A}]")[1] == -0.5, "a penalty has no cost on top"


def test_papers_of_hardly_any_relevance_are_not_kept() -> None:
    env = small_env({A: 0.01, B: 0.0099, D: 0.0, LATER: 0.0})
    _, reward, *_, info = check_step(env, "search[sand]")
    assert reward == 0.01 and info["pool_size"] == 1


def test_some_calls_that_cannot_run_do_not_stop_the_rest() -> None:
    env = small_env({A: 1.0})
    observation, reward, *_, info = check_step(env, "search[sieves]\nbrowse[x]\nsearch[ ]")
    assert "invalid_action" not in info and reward == 2.0
    assert [call["ok"] for call in info["calls"]] == [True, False, False]
    assert "there is no tool 'browse'" in observation and "the query is empty" in observation
    *_, info = check_step(env, "search[]\nexpand[[]]")
    assert info["invalid_action"] == "search: the query is empty; expand: the paper_id is empty"


@pytest.mark.parametrize(
    "end", ["finish[]", "finish[all found]", "answer[x]", '{"name": "finish", "arguments": {"answer": ""}}']
)
def test_finishing_ends_the_episode_and_pays_nothing(end: str) -> None:
    env = small_env()
    check_step(env, "search[sand]")
    observation, reward, terminated, _, info = check_step(env, end)
    assert terminated and reward == 0.0 and observation == "Finished with 4 papers in the pool."
    assert env.expert_action() is None and info["calls"][0]["name"] == "finish"


def test_a_service_that_fails_costs_the_call_its_reward_and_can_be_asked_again() -> None:
    env = small_env({A: 1.0}, backend=Flaky(small_backend(), lambda n: n in (1, 3)), relevance=Grades({}, 0.25))
    observation, reward, *_, info = check_step(env, "search[sieves]\nsearch[gravel]")
    assert rewards(info) == [0.75, 0.0] and "failed, try again: the service is asleep" in observation
    assert info["calls"][1]["error"] == "the service is asleep" and info["queries"] == ["sieves"]
    assert rewards(check_step(env, "search[gravel]")[4]) == [0.25]
    _, _, _, _, info = check_step(env, f"expand[{A}]")
    assert rewards(info) == [0.0] and info["expanded"] == [] and info["reward_info"]["service_failures"] == 2.0
    assert rewards(check_step(env, f"expand[{A}]")[4]) == [0.25]


def test_a_selector_that_fails_costs_the_call_its_reward_and_is_counted() -> None:
    env = small_env(relevance=Grades({B: None}, 0.25))
    _, reward, *_, info = check_step(env, "search[sand]\nsearch[gravel]")
    assert rewards(info) == [0.0, 0.25] and info["calls"][0]["error"]
    assert info["reward_info"]["selector_failures"] == 1.0 and info["reward_info"]["service_failures"] == 0.0
    assert {p["id"] for p in info["pool"]} == {A, C, D, LATER}, "what could be judged is kept"
    env.selector.scores[B] = 0.5
    assert rewards(check_step(env, "search[sand]")[4]) == [0.5]


def test_papers_after_the_cutoff_are_never_found() -> None:
    env = PaperSearchEnv("test")
    free = PaperSearchEnv("test", use_cutoff=False)
    for position in range(0, 150, 10):
        task = env.tasks[position]
        found: list[set[str]] = []
        for one in (env, free):
            one.reset(options={"task": position})
            while (action := one.expert_action()) is not None:
                *_, info = one.step(action)
            found.append({entry.paper.date for entry in one.get_state()["world"].pool.values()})
        assert max(found[0]) <= task.cutoff


def test_the_score_is_f1_and_success_is_recall() -> None:
    env = PaperSearchEnv("test", success_recall=0.5)
    env.reset(options={"task": 0})
    *_, info = env.step(f"search[{env.task.titles[0]}]")
    pool = env.get_state()["world"].pool
    hits = len(set(pool) & set(env.task.answers))
    recall = hits / len(env.task.answers)
    assert 0 < recall < 1 and info["reward_info"]["recall"] == recall and info["reward_info"]["precision"] == 1.0
    assert info["score"] == info["reward_info"]["f1"] == pytest.approx(2 * recall / (1 + recall))
    assert info["success"] is (recall >= 0.5)


def test_the_list_is_cut_to_the_observation() -> None:
    env = small_env(abstract_words=3)
    observation, *_ = check_step(env, "search[sand]")
    assert "We sort sand\N{HORIZONTAL ELLIPSIS}" in observation and "with sieves" not in observation
    env = PaperSearchEnv("test", observation_chars=16_384, relevance=Grades({}, 0.5), search_limit=1000, list_size=400)
    env.reset(options={"task": 0})
    observation, *_, info = check_step(env, "search[forecasting]")
    assert len(observation) <= 16_384 and info["pool_size"] > 200 and "200 shown" in observation


def test_tools_can_be_called_by_a_program() -> None:
    env = small_env({A: 1.0})
    assert env.tools["search"]({"query": "sieves"}).reward == 2.0
    assert env.search("sieves").reward == -0.5 and env.turn == 0


def test_snapshots_and_determinism() -> None:
    env = gymnasium.make("AgentR1/PaperSearch-v0", split="test")
    check_reset(env, options={"task": 3})
    actions = [base(env).expert_action(), "search[glacier]\nexpand[P00001]", "search[ice flow]"]
    env.step(actions[0])
    saved = pickle.loads(pickle.dumps(snapshot(env)))
    first = [env.step(action) for action in actions[1:]]
    restore(env, saved)
    assert [env.step(action) for action in actions[1:]] == first
    again = gymnasium.make("AgentR1/PaperSearch-v0", split="test")
    again.reset(seed=99, options={"task": 3})
    again.step(actions[0])
    assert [again.step(action) for action in actions[1:]] == first


def test_protocol_and_tools_say_what_counts() -> None:
    env = PaperSearchEnv("validation", search_cost=0.1)
    _, info = check_reset(env)
    protocol = json.loads(json.dumps(info["protocol"]))
    assert protocol["backend"]["papers"] == 5064 and protocol["costs"]["search"] == 0.1
    assert [tool["function"]["name"] for tool in info["tools"]] == ["search", "expand", "finish"]
    assert "pool is the result" in info["tools"][2]["function"]["description"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "dev"}, "split must be one of"),
        ({"max_calls": 0}, "max_calls"),
        ({"search_limit": 0}, "search_limit"),
        ({"citation_limit": -1}, "citation_limit"),
        ({"list_size": True}, "list_size"),
        ({"threshold": 1.5}, "threshold"),
        ({"success_recall": float("nan")}, "success_recall"),
        ({"search_cost": -1}, "costs"),
        ({"expand_cost": float("nan")}, "costs"),
        ({"observation_chars": 10}, "observation_chars"),
        ({"data_format": "spar"}, "needs data="),
        ({"backend": "elastic"}, "unknown backend"),
        ({"backend": {"url": "x"}}, "unknown backend"),
        ({"backend": {"name": "semantic_scholar", "speed": 3}}, "bad arguments in backend"),
        ({"backend": "tests.nothing:make"}, "cannot load backend"),
        ({"relevance": "oracle"}, "unknown relevance"),
        ({"relevance": {"name": "known", "depth": 3}}, "bad arguments in relevance"),
        ({"relevance": {"name": "known", "nearness": 3}}, "nearness"),
        ({"relevance": 3}, "unknown relevance"),
        ({"relevance": {"name": "judge", "url": "here", "model": "m"}}, "address"),
    ],
)
def test_bad_arguments_raise_at_construction(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PaperSearchEnv(**arguments)


def test_factories_must_return_what_is_asked_for() -> None:
    with pytest.raises(ValueError, match="has no look_up"):
        PaperSearchEnv(backend="builtins:dict")
    with pytest.raises(ValueError, match="has no judge"):
        PaperSearchEnv(relevance="builtins:dict")
    env = PaperSearchEnv(backend="tests.helpers.papers:small_backend")
    assert len(env.backend.corpus) == 6  # type: ignore[attr-defined]
