"""What environments may return: accepted as what it is, repaired and counted, or refused in words."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Text
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from agent_r1_trainer.bench.episode import Job, play_episode
from agent_r1_trainer.demos.episode import demonstrate
from agent_r1_trainer.environments.contract import CheckedEnv, ContractError, close_quietly
from agent_r1_trainer.environments.factory import EnvFactory
from agent_r1_trainer.flows import AgentEnvLoop, Assignment, SingleStepFlow
from agent_r1_trainer.generation import SamplingParams
from agent_r1_trainer.metrics import episode_metrics, summarize
from agent_r1_trainer.trajectory import StopReason, Trajectory
from tests.helpers.training import ScriptedGenerator, make_tokenizer

TOKENIZER = make_tokenizer()
LONE = "left \ud800"
MENDED = "left \N{REPLACEMENT CHARACTER}"


class Says(gymnasium.Env[Any, str]):
    """Returns in its only step what it was told to return."""

    observation_space, action_space = Text(100), Text(100)

    def __init__(self, **returns: Any) -> None:
        self.first = returns.pop("first", ("left", {}))
        self.returns = {"observation": "left", "reward": 1.0, "terminated": True, "truncated": False, "info": {}}
        self.returns |= returns

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.first

    def step(self, action: str) -> Any:
        return self.returns["all"] if "all" in self.returns else tuple(self.returns[name] for name in RETURNED)

    def expert_action(self) -> str:
        return "a"


RETURNED = ("observation", "reward", "terminated", "truncated", "info")


def play(make_env: Any, replies: str = "a <end>") -> Trajectory:
    loop = AgentEnvLoop(make_env, TOKENIZER, max_prompt_length=60)
    [trajectory] = loop.run([Assignment(None, 3)], ScriptedGenerator(TOKENIZER, lambda prompt: replies), SAMPLING)
    loop.close()
    episode_metrics([summarize(trajectory)])  # nothing that an environment returned raises here
    json.dumps(trajectory.info, allow_nan=False)
    return trajectory


SAMPLING = SamplingParams(4, (1,))
MESSAGE = {"role": "user", "content": "left"}
REFUSED: list[tuple[str, Any]] = [
    *(
        ("observation", value)
        for value in (None, 3, {"text": "left"}, b"left", ["left", "right"], [], [1.5], [True, 5])
    ),
    *(("observation", value) for value in ([MESSAGE, 5], [{"content": "x"}], [{"role": 3, "content": "x"}], [5, -1])),
    *(
        ("observation", [{"role": "user", "content": value}])
        for value in (None, 3, b"x", [], ["x"], [{"type": "image"}])
    ),
    *(("observation", value) for value in (np.array([[1, 2]]), memoryview(b"ab"), object())),
    *(("reward", value) for value in (float("nan"), float("inf"), 1e300, -1.1e6, 10**400, "1.0", None, [1.0])),
    *(("reward", value) for value in (np.array([1.0]), np.array("1"), torch.ones(1), 1 + 0j, Decimal(1), {})),
    *((name, value) for name in ("terminated", "truncated") for value in ("yes", "False", None, 2, [True], 0.5)),
    *(("info", {"success": value}) for value in ("False", "", 2, 0.5, [1], float("nan"))),
    *(("info", {"score": value}) for value in ("high", float("nan"), float("inf"), [1.0], {"a": 1})),
    *(("info", {"reward_info": value}) for value in ({"a": "x"}, {"a": float("nan")}, {3: 1.0}, [1.0], {"a": {}}, 1.0)),
    *(("info", {"task_id": value}) for value in (b"x", ["x"], 1.5, True)),
    *(("info", {"invalid_action": value}) for value in ({"why": "x"}, 3, ["x"])),
    *(
        ("info", value)
        for value in (None, [], "x", {"protocol": 3}, {"chat_template_kwargs": "x"}, {"foreign_limit": "x"})
    ),
    *(("all", value) for value in (("left", 1.0, True, {}), None, "abcde", ["left", 1.0, True, False, {}])),
]


def _shown(value: object) -> str:
    return repr(value).partition(" at 0x")[0][:30]  # an address differs between the processes that collect tests


@pytest.mark.parametrize(("field", "value"), REFUSED, ids=[f"{field} {_shown(value)}" for field, value in REFUSED])
@pytest.mark.parametrize("recipe", ["none", "default"])
def test_a_broken_contract_costs_the_episode_and_names_environment_field_and_value(field, value, recipe):
    env = Says(**{field: value})
    trajectory = play(EnvFactory(lambda: env, recipe=recipe))
    assert trajectory.masked and trajectory.breach and trajectory.stop is StopReason.FAILED
    named = next(iter(value)) if field == "info" and isinstance(value, dict) else "" if field == "all" else field
    assert "Says.step() returned" in trajectory.error and named in trajectory.error and len(trajectory.error) < 500
    record = play_episode(env, Speaker(), Job(0, None, 3))
    assert record.failed and named in record.error and record.score == 0.0 and not record.success
    json.dumps(record.to_json(), allow_nan=False)
    if recipe == "none":
        with pytest.raises(ContractError, match="Says"):
            demonstrate(env, "says", Job(0, None, 3))


@pytest.mark.parametrize(
    "first", [(None, {}), ("left", None), "ab", ("left", {"protocol": "x"}), ("left", {"chat_template_kwargs": 3})]
)
def test_a_reset_is_held_to_the_same(first):
    trajectory = play(EnvFactory(lambda: Says(first=first)))
    assert trajectory.masked and trajectory.breach and "Says.reset() returned" in trajectory.error


@pytest.mark.parametrize("recipe", ["none", "default"])
@pytest.mark.parametrize(
    ("method", "returns"),
    [("step", {"all": ("left", 1.0, True, {})}), ("step", {"all": None}), ("reset", {"first": ("left", {}, 3)})],
)
def test_so_is_what_a_wrapper_in_between_cannot_take_apart(method, returns, recipe):
    trajectory = play(EnvFactory(lambda: RecordEpisodeStatistics(TimeLimit(Says(**returns), 4)), recipe=recipe))
    assert trajectory.masked and trajectory.breach and f"Says.{method}() returned" in trajectory.error


def test_an_environment_that_fails_to_take_something_of_its_own_apart_breaks_no_contract():
    class Splits(Says):
        def step(self, action: str) -> Any:
            first, second = action.split(":")
            return super().step(first + second)

    trajectory = play(lambda: TimeLimit(Splits(), 4))
    assert trajectory.masked and not trajectory.breach and "not enough values to unpack" in trajectory.error


def test_ids_that_the_vocabulary_does_not_have_are_refused():
    trajectory = play(lambda: Says(first=([3, 99_999], {})))
    assert trajectory.masked and f"99999: ids are at least 0 and below {len(TOKENIZER)}" in trajectory.error


class Speaker:
    recipe = "none"

    def begin(self, env, info, seed):
        return lambda observation, info: "a"


ACCEPTED: list[tuple[str, Any, Any]] = [
    *(("reward", one, 1.0) for one in (1, True, np.float32(1), np.int64(1), np.bool_(True), np.array(1.0))),
    *(("reward", value, float(value)) for value in (torch.tensor(0.5), Fraction(1, 4), 1e6, -1e6, np.float16(0.5), 0)),
    *(("terminated", one, True) for one in (True, np.bool_(True), 1, np.int8(1), np.array(True), 1.0)),
    *(("success", one, True) for one in (True, np.bool_(True), 1, 1.0, np.array(True))),
    *(("success", zero, False) for zero in (False, np.bool_(False), 0, 0.0)),
    *(("success", None, True), ("score", None, 1.0), ("score", np.float32(0.5), 0.5), ("score", True, 1.0)),
    *(("score", 350, 350.0), ("reward_info", {"a": np.float32(0.5), "b": True, "c": None}, {"a": 0.5, "b": 1.0})),
    *(("reward_info", None, {}), ("task_id", 7, "7"), ("task_id", np.int64(7), "7"), ("task_id", None, "")),
    *(("invalid_action", no, False) for no in (None, False, "", 0, np.bool_(False))),
    *(("invalid_action", yes, True) for yes in (True, "no such room", 1)),
]


@pytest.mark.parametrize(("field", "value", "wanted"), ACCEPTED, ids=[f"{f} {v!r}" for f, v, _ in ACCEPTED])
def test_what_has_one_reading_is_taken_as_that(field, value, wanted):
    trajectory = play(lambda: Says(**({field: value} if field in RETURNED else {"info": {field: value}})))
    assert not trajectory.masked and trajectory.error == "" and trajectory.repaired == 0
    step = trajectory.steps[0]
    found = {"reward": step.reward, "terminated": step.terminated, "invalid_action": step.invalid}
    found |= {name: getattr(trajectory, name) for name in ("success", "score", "reward_info", "task_id")}
    assert found[field] == wanted and type(found[field]) is type(wanted)


@pytest.mark.parametrize(
    ("observation", "prompt"),
    [
        ("left", [3, 4, 1, 6]),
        ([3, 4], [3, 4]),
        ((3, 4), [3, 4]),
        (np.array([3, 4]), [3, 4]),
        ([np.int64(3), 4], [3, 4]),
        (torch.tensor([3, 4]), [3, 4]),
        ([MESSAGE], [3, 4, 1, 6]),
        (({"role": "user", "content": "left"},), [3, 4, 1, 6]),
        ([{"role": "user", "content": [{"type": "text", "text": "left"}]}], None),
        ([MESSAGE, {"role": "assistant", "content": None, "tool_calls": [{}]}], None),
    ],
    ids=repr,
)
def test_text_messages_and_ids_make_prompts(observation, prompt):
    trajectory = play(lambda: Says(first=(observation, {})))
    assert not trajectory.masked, trajectory.error
    assert prompt is None or trajectory.steps[0].prompt_ids == prompt


@pytest.mark.parametrize("recipe", ["none", "native", "default"])
def test_half_a_surrogate_pair_is_replaced_and_counted(recipe):
    info = {"task_id": LONE, "reward_info": {LONE: 1.0}, "invalid_action": LONE, "protocol": {"rules": [LONE]}}
    env = Says(first=(LONE, info), observation=LONE, terminated=False, truncated=True, info=info)
    trajectory = play(EnvFactory(lambda: env, recipe=recipe))
    assert not trajectory.masked and trajectory.task_id == MENDED and trajectory.reward_info == {MENDED: 1.0}
    assert trajectory.repaired == 10 and trajectory.info["protocol"] == {"rules": [MENDED]}
    if recipe != "none":  # the messages stay the same objects, so that the prompt goes on from the reply
        chain = trajectory.steps[0].prompt_ids + trajectory.steps[0].response_ids
        assert trajectory.final_prompt_ids[: len(chain)] == chain
    assert episode_metrics([summarize(trajectory)])["repaired_ratio"] == 1.0
    record = play_episode(env, Speaker(), Job(0, None, 3))
    assert record.steps[0].observation == MENDED and record.steps[0].invalid == MENDED
    json.dumps(record.to_json(), ensure_ascii=False).encode()


class Grows(gymnasium.Env[Any, str]):
    """Emits a growing conversation of its own, with half a surrogate pair in every message."""

    observation_space, action_space = Text(100), Text(100)

    def reset(self, *, seed=None, options=None):
        self.messages = [{"role": "user", "content": LONE}]
        return list(self.messages), {}

    def step(self, action):
        self.messages += [{"role": "assistant", "content": action}, {"role": "user", "content": LONE}]
        return list(self.messages), 0.0, False, len(self.messages) > 8, {}


def test_repaired_messages_keep_their_identity_so_that_turns_merge():
    trajectory = play(Grows)
    assert len(trajectory) == 4 and [step.extends for step in trajectory.steps] == [False, True, True, True]
    assert trajectory.repaired == 5


def test_a_message_that_is_changed_in_place_is_looked_at_again():
    env = CheckedEnv(Grows())
    observation, _ = env.reset()
    env.unwrapped.messages[0]["content"] = 3
    with pytest.raises(ContractError, match=r"observation\[0\] has the content 3"):
        env.step("a")


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error", [ValueError("x" * 9999), ValueError(LONE), Rude(), RecursionError(), AssertionError()]
)
def test_any_exception_of_an_environment_costs_its_episode_and_is_named_in_few_words(error):
    class Raises(Says):
        def step(self, action):
            raise error

    trajectory = play(Raises)
    assert trajectory.masked and not trajectory.breach and type(error).__name__ in trajectory.error
    assert len(trajectory.error) <= 500 and trajectory.error.encode()


def test_an_object_that_cannot_be_shown_is_refused_all_the_same():
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError("no words")

    assert "an object of Mute" in play(lambda: Says(reward=Mute())).error


def test_what_is_no_json_in_a_protocol_is_written_down_as_it_is_shown():
    protocol = {"a": np.float32(0.5), "b": float("nan"), "c": {1: {2}}, "d": (1, None)}
    trajectory = play(lambda: Says(first=("left", {"protocol": protocol})))
    assert trajectory.info["protocol"] == {"a": 0.5, "b": "nan", "c": {"1": "{2}"}, "d": [1, None]}


def test_a_fault_of_this_package_is_named_and_costs_the_episode(monkeypatch):
    from agent_r1_trainer.prompts import PromptBuilder

    def broken(self, observation):
        raise KeyError("our own mistake")

    monkeypatch.setattr(PromptBuilder, "first", broken)
    trajectory = play(Says)
    assert trajectory.masked and trajectory.error == "KeyError: 'our own mistake'"


def test_a_wrapper_of_the_environment_changes_nothing_that_could_be_told_apart():
    env = CheckedEnv(TimeLimit(gymnasium.make("AgentR1/HotpotQA-v0"), 3))
    assert env.spec == env.env.spec and env.unwrapped is env.env.unwrapped
    assert env.observation_space is env.env.observation_space


def test_a_close_that_raises_is_said_and_passed_over():
    class Clings(Says):
        def close(self):
            raise OSError("still in use")

    with pytest.warns(UserWarning, match="closing Clings failed: OSError: still in use"):
        close_quietly(Clings())


def test_single_steps_are_held_to_the_same():
    rewards: list[Any] = [np.float32(1), "1.0", np.array([1.0]), 1e300, None]
    prompts: list[Any] = ["left"] * 5 + [None, [99_999], LONE]
    flow = SingleStepFlow(prompts, lambda task, reply: rewards[task % 7], TOKENIZER, max_prompt_length=50)
    tasks = [Assignment(task, 0, group=task) for task in range(8)]
    found = flow.run(tasks, ScriptedGenerator(TOKENIZER, lambda prompt: "a <end>"), SAMPLING)
    assert [t.masked for t in found] == [t.breach for t in found] == [False] + [True] * 6 + [False]
    assert found[0].success and found[7].repaired == 1
    assert "'1.0'" in found[1].error and "the prompt of task 5 = None" in found[5].error and "99999" in found[6].error
