"""The lockstep loop: who generates when, what is recorded, and what a failure costs."""

from __future__ import annotations

import gymnasium
import pytest
from gymnasium.spaces import Text

from agent_r1_trainer.flows import AgentEnvLoop, Assignment, AsyncEnvLoop, SingleStepFlow
from agent_r1_trainer.flows.failures import FailurePolicy
from agent_r1_trainer.generation import Generation, SamplingParams
from agent_r1_trainer.trajectory import StopReason
from tests.helpers.training import CueEnv, ScriptedGenerator, make_tokenizer

TOKENIZER = make_tokenizer()
SAMPLING = SamplingParams(4, (1,))


def last_cue(prompt: list[int]) -> str:
    words = TOKENIZER.convert_ids_to_tokens(prompt)
    return [word for word in words if word in ("left", "right")][-1] + " <end>"


def loop(make_env=CueEnv, **kwargs) -> AgentEnvLoop:
    return AgentEnvLoop(make_env, TOKENIZER, **{"max_prompt_length": 200, **kwargs})


def assignments(count: int) -> list[Assignment]:
    return [Assignment(task=i % 8, seed=50 + i, group=i) for i in range(count)]


def test_a_won_episode_chains_its_prompts_and_keeps_the_sampled_ids():
    generator = ScriptedGenerator(TOKENIZER, last_cue)
    [trajectory] = loop().run([Assignment(task=3, seed=1, group=2, sample=5)], generator, SAMPLING, policy_version=7)
    assert (trajectory.task_id, trajectory.group, trajectory.sample) == ("task-3", 2, 5)
    assert trajectory.stop is StopReason.TERMINATED and trajectory.success and trajectory.score == 1.0
    assert trajectory.reward_info == {"right": 5.0} and not trajectory.masked
    assert [step.turn for step in trajectory.steps] == [0, 1, 2, 3, 4]
    assert {step.policy_version for step in trajectory.steps} == {7}
    assert [step.extends for step in trajectory.steps] == [False] + [True] * 4
    for before, after in zip(trajectory.steps, trajectory.steps[1:], strict=False):
        chain = before.prompt_ids + before.response_ids
        assert after.prompt_ids[: len(chain)] == chain
    assert all(step.response_ids[-1] == 1 and step.finish == "stop" for step in trajectory.steps)
    assert all(step.logprobs == [-0.5] * len(step.response_ids) for step in trajectory.steps)
    assert [step.terminated for step in trajectory.steps] == [False] * 4 + [True]


def test_only_live_episodes_generate_and_slots_are_refilled():
    def sometimes(prompt: list[int]) -> str:
        return last_cue(prompt) if sum(prompt) % 3 else "wait <end>"

    generator = ScriptedGenerator(TOKENIZER, sometimes)
    trajectories = loop(concurrency=4).run(assignments(20), generator, SAMPLING)
    assert [trajectory.group for trajectory in trajectories] == list(range(20))
    assert sum(map(len, generator.calls)) == sum(map(len, trajectories))
    assert max(map(len, generator.calls)) == 4
    # The batch stays full until the assignments have run out.
    started = 0
    for call in generator.calls:
        started += sum(len(prompt) == 4 for prompt in call)
        assert len(call) == 4 or started == 20


def test_results_do_not_depend_on_the_concurrency():
    runs = []
    for concurrency in (None, 3, 1):
        generator = ScriptedGenerator(TOKENIZER, lambda prompt: last_cue(prompt) if sum(prompt) % 4 else "wait")
        trajectories = loop(concurrency=concurrency).run(assignments(9), generator, SAMPLING)
        runs.append(([t.steps for t in trajectories], sorted(generator.seeds)))
    assert runs[0] == runs[1] == runs[2]


class Losing(ScriptedGenerator):
    """Has no reply for prompts of this many tokens."""

    def __init__(self, length: int) -> None:
        super().__init__(TOKENIZER, last_cue)
        self.length = length

    def generate(self, prompts, sampling, seeds):
        replies = super().generate(prompts, sampling, seeds)
        lost = Generation([], None, "length", error="a log-probability is nan")
        return [lost if len(p) == self.length and s % 2 else r for p, s, r in zip(prompts, seeds, replies, strict=True)]


@pytest.mark.parametrize("workers", [None, "inline"])
def test_a_reply_that_cannot_be_had_masks_its_episode_and_blames_no_environment(workers):
    failures = FailurePolicy(2)
    flow = loop(failures=failures) if workers is None else AsyncEnvLoop(
        CueEnv, TOKENIZER, max_prompt_length=200, failures=failures, env_workers=workers
    )  # fmt: skip
    length = len(loop().run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)[0].steps[2].prompt_ids)
    played = flow.run(assignments(12), Losing(length), SAMPLING)
    flow.close()
    masked = [trajectory for trajectory in played if trajectory.masked]
    assert 0 < len(masked) < 12 and flow.progress.lost_replies == len(masked) and flow.progress.retried == 0
    assert {(t.error, len(t)) for t in masked} == {("GenerationError: a log-probability is nan", 2)}
    assert {len(t) for t in played if not t.masked} == {5}


def test_a_single_step_without_a_reply_is_masked():
    flow = SingleStepFlow(["left", "right"], lambda task, reply: 1.0, TOKENIZER, max_prompt_length=50)
    length = len(flow.run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)[0].steps[0].prompt_ids)
    played = flow.run([Assignment(i % 2, 50 + i) for i in range(12)], Losing(length), SAMPLING)
    assert 0 < sum(trajectory.masked for trajectory in played) < 12
    assert {t.error for t in played if t.masked} == {"GenerationError: a log-probability is nan"}


def test_seeds_of_replies_differ_by_sample_and_turn_and_the_env_starts_alike_in_a_group():
    pair = [Assignment(0, 9, group=0, sample=sample) for sample in (0, 1)]
    seeds = {assignment.reply_seed(turn) for assignment in pair for turn in range(10)}
    assert len(seeds) == 20
    first, second = loop().run(pair, ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert [step.prompt_ids for step in first.steps] == [step.prompt_ids for step in second.steps]


class Failing(CueEnv):
    """Task 1 fails in reset, task 2 in its second step, task 3 pays NaN."""

    built = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).built += 1
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        observation, info = super().reset(seed=seed, options=options)
        if self.task == 1:
            raise ConnectionError("no server")
        return observation, info

    def step(self, action):
        self.steps += 1
        observation, reward, *rest = super().step(action)
        if self.task == 2 and self.steps == 2:
            raise RuntimeError("a tool broke")
        return observation, float("nan") if self.task == 3 else reward, *rest


def test_a_failing_environment_costs_its_own_episode_only():
    Failing.built = 0
    trajectories = loop(Failing).run(assignments(8), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    masked = {trajectory.group: trajectory for trajectory in trajectories if trajectory.masked}
    assert set(masked) == {1, 2, 3}
    assert all(t.stop is StopReason.FAILED and not t.success for t in masked.values())
    assert masked[1].error == "ConnectionError: no server" and masked[2].error == "RuntimeError: a tool broke"
    assert "nan" in masked[3].error
    assert all(trajectory.success for trajectory in trajectories if not trajectory.masked)


class Silent(CueEnv):
    """Says nothing in its second turn, which makes no prompt."""

    def step(self, action):
        _, *rest = super().step(action)
        return ([], *rest)


def test_messages_that_make_no_prompt_cost_the_episode_only():
    [trajectory] = loop(Silent).run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert trajectory.masked and trajectory.stop is StopReason.FAILED and "observation = []" in trajectory.error


def test_an_environment_that_failed_is_replaced():
    flow, generator = loop(Failing, concurrency=1), ScriptedGenerator(TOKENIZER, last_cue)
    Failing.built = 0
    flow.run([Assignment(0, 1), Assignment(2, 1), Assignment(0, 2)], generator, SAMPLING)
    assert Failing.built == 2
    flow.close()


def test_a_prompt_that_is_too_long_ends_the_episode():
    [trajectory] = loop(max_prompt_length=18).run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert trajectory.stop is StopReason.PROMPT_TOO_LONG and not trajectory.masked
    assert len(trajectory) == 3 and trajectory.steps[-1].truncated and trajectory.final_prompt_ids is None
    assert trajectory.score == pytest.approx(0.6) and not trajectory.success
    [unused] = loop(max_prompt_length=2).run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert unused.stop is StopReason.PROMPT_TOO_LONG and unused.masked and unused.steps == []


class Limited(CueEnv):
    """Truncates after two turns, by a limit of its own task or a foreign one; a win may come with it."""

    def __init__(self, foreign: bool = False, win: bool = False) -> None:
        super().__init__(turns=2 if win else 5)
        self.foreign = foreign

    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        truncated = self.right == 2
        return observation, reward, terminated, truncated, info | ({"foreign_limit": True} if self.foreign else {})


@pytest.mark.parametrize(
    ("kwargs", "stop"),
    [
        ({}, StopReason.TURN_LIMIT),
        ({"foreign": True}, StopReason.FOREIGN_LIMIT),
        ({"win": True}, StopReason.TERMINATED),
    ],
)
def test_truncation_is_told_apart(kwargs, stop):
    [trajectory] = loop(lambda: Limited(**kwargs)).run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert trajectory.stop is stop and len(trajectory) == 2
    if stop is StopReason.TERMINATED:
        assert trajectory.success and trajectory.final_prompt_ids is None
    else:
        chain = trajectory.steps[-1].prompt_ids + trajectory.steps[-1].response_ids
        assert trajectory.final_prompt_ids[: len(chain)] == chain


class Plain(gymnasium.Env):
    """Shows text or token ids, knows neither tasks nor success."""

    observation_space, action_space = Text(100), Text(100)

    def __init__(self, observation="left") -> None:
        self.observation = observation

    def reset(self, *, seed=None, options=None):
        assert options is None
        super().reset(seed=seed)
        return self.observation, {"chat_template_kwargs": {"greeting": "again "}}

    def step(self, action):
        return self.observation, float(action == "a"), True, False, {}


def test_any_environment_of_text_or_ids_runs():
    generator = ScriptedGenerator(TOKENIZER, lambda prompt: "a <end>")
    flow = loop(Plain)
    assert flow.num_tasks is None
    [trajectory] = flow.run([Assignment(None, 3)], generator, SAMPLING)
    assert trajectory.success and trajectory.score == 1.0 and trajectory.steps[0].text == "a"
    [ids] = loop(lambda: Plain([5, 6, 7])).run([Assignment(None, 3)], generator, SAMPLING)
    assert ids.steps[0].prompt_ids == [5, 6, 7]


def test_the_environment_may_pass_arguments_to_the_template():
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{{ greeting }}" + tokenizer.chat_template
    [trajectory] = AgentEnvLoop(Plain, tokenizer, max_prompt_length=50).run(
        [Assignment(None, 3)], ScriptedGenerator(tokenizer, lambda prompt: "b"), SAMPLING
    )
    assert tokenizer.convert_ids_to_tokens(trajectory.steps[0].prompt_ids)[0] == "again"
    assert not trajectory.success


def test_single_steps_are_scored_by_a_function():
    def reward(task: int, reply: str) -> float:
        if task == 2:
            raise RuntimeError("no judge")
        return float(reply == ["a", "b"][task])

    flow = SingleStepFlow(["left", "right", "wait", "a " * 60], reward, TOKENIZER, max_prompt_length=50)
    assert flow.num_tasks == 4
    tasks = [Assignment(task, 0, group=task) for task in (0, 1, 2, 3)]
    good, bad, failed, long = flow.run(tasks, ScriptedGenerator(TOKENIZER, lambda prompt: "a <end>"), SAMPLING)
    assert good.success and good.steps[0].reward == 1.0 and good.steps[0].terminated
    assert not bad.success and bad.stop is StopReason.TERMINATED and not bad.masked
    assert failed.masked and failed.stop is StopReason.FAILED and "no judge" in failed.error
    assert long.masked and long.stop is StopReason.PROMPT_TOO_LONG
    broken = SingleStepFlow(["left"], lambda task, reply: float("nan"), TOKENIZER, max_prompt_length=50)
    [nan] = broken.run(tasks[:1], ScriptedGenerator(TOKENIZER, lambda prompt: "a <end>"), SAMPLING)
    assert nan.masked and nan.breach and "the reward = nan" in nan.error and nan.steps[0].reward == 0.0
    with pytest.raises(TypeError, match="position"):
        flow.run([Assignment("x", 0)], ScriptedGenerator(TOKENIZER, lambda prompt: "a"), SAMPLING)


def test_an_environment_that_cannot_be_built_again_costs_its_episodes_only():
    built = []

    def scarce():
        if len(built) == 3:
            raise ConnectionError("no more servers")
        built.append(CueEnv())
        return built[-1]

    flow = loop(scarce)
    assert flow.num_tasks == 8
    trajectories = flow.run(assignments(5), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert [t.masked for t in trajectories] == [False] * 3 + [True] * 2
    assert trajectories[3].error == "ConnectionError: no more servers" and trajectories[0].success
    with pytest.raises(ConnectionError, match="no more servers"):
        loop(scarce).run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
