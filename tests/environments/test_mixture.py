"""Several environments in one run: shares, lockstep, metrics of each, and resume to the last bit."""

from __future__ import annotations

import collections
import math
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_trainer.curriculum.epochs import TaskCursor, allocate
from agent_r1_trainer.environments.mixture import MixtureEntry, mixture_entries
from agent_r1_trainer.flows import AgentEnvLoop, Assignment
from agent_r1_trainer.generation import SamplingParams
from tests.helpers.training import CueEnv, ScriptedGenerator, StallEnv, make_tokenizer, make_trainer, measured, weights

TOKENIZER = make_tokenizer()
RUN = {"num_generations": 2, "max_steps": 16, "save_strategy": "steps", "save_steps": 4, "logging_steps": 2}
EVALUATION = {"eval_strategy": "steps", "eval_steps": 8, "eval_episodes": 3, "eval_num_generations": 2}


def entries():
    return {
        "cue": MixtureEntry(CueEnv, kwargs={"tasks": 5}, eval_kwargs={"tasks": 4}, weight=2, reward_scale=2.0),
        "stall": MixtureEntry(StallEnv, kwargs={"tasks": 7}, eval_kwargs={"tasks": 2}, max_turns=3),
        "held_out": MixtureEntry(CueEnv, eval_kwargs={"turns": 2}, weight=0),
    }


# Shares


@given(
    st.lists(st.one_of(st.integers(1, 9), st.floats(0.05, 5.0)), min_size=1, max_size=5),
    st.integers(1, 12),
    st.integers(1, 30),
)
def test_shares_are_exact_in_the_long_run_and_each_walk_has_no_gap(shares, groups, rollouts):
    named = {f"env{i}": share for i, share in enumerate(shares)}
    whole = allocate(named, 0, groups * rollouts)
    # A rollout is a pure function of its number: pieces give the whole.
    assert [item for r in range(rollouts) for item in allocate(named, r * groups, groups)] == whole
    counts: dict[str, int] = collections.Counter()
    total = sum(Fraction(share) for share in shares)
    for number, (name, position) in enumerate(whole):
        assert position == counts[name]
        counts[name] += 1
        for env, share in named.items():
            quota = Fraction(share) / total * (number + 1)
            assert abs(counts[env] - quota) <= Fraction(1, 2) + Fraction(share) / total * Fraction(len(named), 2)


def test_whole_weights_are_exact_after_each_round_and_environments_alternate():
    names = [name for name, _ in allocate({"a": 3, "b": 1, "c": 2}, 0, 600)]
    for first in range(0, 600, 6):
        assert collections.Counter(names[first : first + 6]) == {"a": 3, "b": 1, "c": 2}
    assert [name for name, _ in allocate({"a": 1, "b": 1}, 10, 4)] == ["a", "b", "a", "b"]
    assert allocate({"a": 1, "b": 0}, 5, 1) == [("a", 5)]
    with pytest.raises(ValueError, match="positive weight"):
        allocate({"a": 0}, 0, 1)


def test_every_environment_walks_through_its_own_epochs():
    cursor = TaskCursor({"a": 6, "b": 4, "c": None}, groups=5, seed=3, weights={"a": 2.0, "b": 1.0, "c": 0.5})
    seen = collections.defaultdict(list)
    for rollout in range(14):
        for env, task in cursor.assignments(rollout):
            seen[env].append(task)
    assert (len(seen["a"]), len(seen["b"]), len(seen["c"])) == (40, 20, 10)
    for name, size in (("a", 6), ("b", 4)):
        epochs = [seen[name][i : i + size] for i in range(0, len(seen[name]) - size + 1, size)]
        assert all(sorted(epoch) == list(range(size)) for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) > 1
    assert set(seen["c"]) == {None}
    assert list(cursor.order(0, "a")) != list(TaskCursor({"": 6}, groups=5, seed=3).order(0))


# The loop


def echo(prompt: list[int]) -> str:
    words = TOKENIZER.convert_ids_to_tokens(prompt)
    return [word for word in words if word in ("left", "right")][-1] + " <end>"


def test_all_environments_take_their_turns_in_one_call():
    generator = ScriptedGenerator(TOKENIZER, echo)
    envs = {"long": lambda: CueEnv(turns=4), "short": lambda: CueEnv(tasks=3, turns=2)}
    loop = AgentEnvLoop(envs, TOKENIZER, max_prompt_length=200)
    assert loop.panels == {"long": 8, "short": 3} and loop.num_tasks is None
    assigned = [Assignment(0, 5 + i, group=i, env=("long", "short")[i % 2]) for i in range(6)]
    trajectories = loop.run(assigned, generator, SamplingParams(4, (1,)))
    assert [len(call) for call in generator.calls] == [6, 6, 3, 3]
    assert [t.env for t in trajectories] == ["long", "short"] * 3
    assert [len(t) for t in trajectories] == [4, 2] * 3 and all(t.success for t in trajectories)
    assert {name: len(idle) for name, idle in loop._shelf._idle.items()} == {"long": 3, "short": 3}
    # A slot that gets free is taken by the next assignment, whatever its environment.
    generator.calls.clear()
    again = AgentEnvLoop(envs, TOKENIZER, max_prompt_length=200, concurrency=2).run(
        assigned, generator, SamplingParams(4, (1,))
    )
    assert [t.steps for t in again] == [t.steps for t in trajectories]
    assert max(map(len, generator.calls)) == 2
    with pytest.raises(ValueError, match="no environment 'other' to run; there are 'long', 'short'"):
        loop.run([Assignment(0, 1, env="other")], generator, SamplingParams(4, (1,)))


# The trainer


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    trainer = make_trainer(tmp_path_factory.mktemp("whole"), env=entries(), **RUN, **EVALUATION, eval_greedy=True)
    batches = []
    run = trainer.flow.run

    def spy(assignments, *args, **kwargs):
        batches.append(run(assignments, *args, **kwargs))
        return batches[-1]

    trainer.flow.run = spy
    trainer.train()
    return trainer, batches


def test_a_rollout_holds_the_shares_and_reports_every_environment(whole):
    trainer, batches = whole
    counts = collections.Counter(t.env for batch in batches for t in batch)
    assert set(counts) == {"cue", "stall"} and abs(counts["cue"] - 2 * counts["stall"]) <= 4
    log = [entry for entry in measured(trainer) if "reward" in entry]
    for batch, entry in zip(batches, log, strict=True):
        for name in ("cue", "stall"):
            part = [t for t in batch if t.env == name]
            assert entry[f"{name}/reward"] == pytest.approx(sum(t.total_reward for t in part) / len(part))
            assert entry[f"{name}/success"] == pytest.approx(sum(t.success for t in part) / len(part))
            assert entry[f"{name}/turns/max"] == max(map(len, part))
        assert entry["reward"] == pytest.approx(sum(t.total_reward for t in batch) / len(batch))
    assert max(entry["stall/turns/max"] for entry in log) <= 3


def test_an_evaluation_counts_every_environment_alike(whole):
    trainer, _ = whole
    evaluations = [entry for entry in measured(trainer) if "eval_success" in entry]
    assert [entry["step"] for entry in evaluations] == [0, 8, 16]
    names = ("cue", "stall", "held_out")
    for entry in evaluations:
        for metric in ("success", "score", "reward", "pass@1", "pass@2", "greedy_success"):
            parts = [entry[f"eval_{name}_{metric}"] for name in names]
            assert entry[f"eval_{metric}"] == pytest.approx(sum(parts) / 3)
        for name in names:
            assert entry[f"eval_{name}_pass@1"] == pytest.approx(entry[f"eval_{name}_success"])
            assert entry[f"eval_{name}_pass@2"] >= entry[f"eval_{name}_pass@1"]
    tasks = collections.Counter((a.env, a.task) for a in trainer._evaluator.assignments)
    assert set(tasks.values()) == {2}
    assert collections.Counter(env for env, _ in tasks) == {"cue": 3, "stall": 2, "held_out": 3}


def test_a_mixture_resumes_bit_equal(whole, tmp_path):
    cut = make_trainer(tmp_path, env=entries(), **{**RUN, "max_steps": 8}, **EVALUATION, eval_greedy=True)
    cut.train()
    resumed = make_trainer(tmp_path, env=entries(), **RUN, **EVALUATION, eval_greedy=True)
    resumed.train(resume_from_checkpoint=True)
    trainer, _ = whole
    assert [e for e in measured(resumed) if e["step"] > 8] == [e for e in measured(trainer) if e["step"] > 8]
    for (key, value), other in zip(weights(trainer).items(), weights(resumed).values(), strict=True):
        assert torch.equal(value, other), key


def test_an_epoch_of_a_mixture_holds_as_many_tasks_as_all_panels(tmp_path):
    trainer = make_trainer(tmp_path, env=entries(), num_generations=4, num_train_epochs=2)  # 4 of 5 + 7 tasks a rollout
    trainer.train()
    assert trainer.state.max_steps == 2 * 3 * 4 and math.isclose(trainer.state.epoch, 2.0)


def test_episodes_to_look_at_say_where_they_were_played(tmp_path):
    trainer = make_trainer(tmp_path, env={"one": CueEnv, "two": StallEnv}, max_steps=4, log_completions=True)
    trainer.train()
    text = next((Path(tmp_path) / "completions").iterdir()).read_text(encoding="utf-8")
    assert '"task_id": "one/task-' in text and '"task_id": "two/task-' in text


def test_an_evaluation_may_take_place_elsewhere(tmp_path):
    elsewhere = {
        "a": MixtureEntry(CueEnv, kwargs={"tasks": 2}),
        "b": StallEnv,
        "c": MixtureEntry(CueEnv, eval_kwargs={}),
    }
    trainer = make_trainer(tmp_path, env=entries(), eval_env=elsewhere, max_steps=4)
    assert trainer.eval_flow.panels == {"a": 2, "b": 8, "c": 8}
    trainer = make_trainer(tmp_path, env=entries(), eval_env=CueEnv, eval_env_kwargs={"tasks": 3}, max_steps=4)
    assert trainer.eval_flow.panels == {"": 3} and trainer.panels == {"cue": 5, "stall": 7}


# What is refused


@pytest.mark.parametrize(
    ("env", "kwargs", "message"),
    [
        ({}, {}, "positive weight"),
        ({"a": MixtureEntry(CueEnv, weight=0)}, {}, r"positive weight, got \['a'\]"),
        ({"a/b": CueEnv}, {}, "'a/b' cannot name an environment"),
        ({"loss": CueEnv}, {}, "'loss' cannot name an environment"),
        ({3: CueEnv}, {}, "3 cannot name an environment"),
        ({"a": CueEnv}, {"kwargs": {"tasks": 3}}, "of each entry"),
        ({"a": CueEnv}, {"eval_kwargs": {}}, "of each entry"),
    ],
)
def test_mixtures_that_mean_nothing_are_refused(env, kwargs, message):
    with pytest.raises(ValueError, match=message):
        mixture_entries(env, **kwargs)


def test_mistakes_show_at_construction(tmp_path):
    with pytest.raises(TypeError, match="CartPole-v1 cannot be played by a language model"):
        make_trainer(tmp_path, env="CartPole-v1", max_steps=4)
    with pytest.raises(ValueError, match="of each entry"):
        make_trainer(tmp_path, env={"a": CueEnv}, env_kwargs={"tasks": 3})
    with pytest.raises(ValueError, match="eval_kwargs of an entry"):
        make_trainer(tmp_path, env={"a": CueEnv}, eval_strategy="steps", eval_steps=4)
    with pytest.raises(ValueError, match="the environment 'a' is empty"):
        make_trainer(tmp_path, env={"a": MixtureEntry(CueEnv, kwargs={"tasks": 0}), "b": CueEnv}, max_steps=4)
    with pytest.raises(ValueError, match="weight must be a number of at least 0"):
        MixtureEntry(CueEnv, weight=-1.0)
    for name in ("weight", "loss_weight", "reward_scale"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            MixtureEntry(CueEnv, **{name: math.inf})
