"""Curricula: what a sampler is asked and told, what is refused, and that its state is kept."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import torch

from agent_r1_trainer.curriculum.medium_difficulty import MediumDifficulty
from agent_r1_trainer.curriculum.sampler import GroupResult, TaskSampler, group_assignments, group_results
from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.trainer.setup import make_task_sampler
from tests.helpers.training import CueEnv, StallEnv, make_trainer, measured, weights

ENVS = {"cue": MixtureEntry(CueEnv, kwargs={"tasks": 6}), "stall": MixtureEntry(StallEnv, max_turns=3)}
RUN = {"num_generations": 4, "save_strategy": "steps", "save_steps": 4, "logging_steps": 2}


class Recorder:
    """Takes tasks in turn and remembers what it heard."""

    def __init__(self, panels, groups, seed, weights) -> None:
        self.arguments = (panels, groups, seed, weights)
        self.heard: list[tuple[int, list[GroupResult]]] = []

    def assignments(self, rollout):
        return [("cue", (rollout + i) % 6) for i in range(3)] + [("stall", 7)]

    def observe(self, rollout, results):
        self.heard.append((rollout, list(results)))

    def state_dict(self):
        return {"heard": len(self.heard)}

    def load_state_dict(self, state):
        self.heard = [(-1, [])] * state["heard"]


def test_a_sampler_chooses_the_tasks_and_hears_of_the_results(tmp_path):
    name = f"{__name__}:Recorder"
    trainer = make_trainer(tmp_path, env=ENVS, max_steps=8, task_sampler=name, **RUN)
    sampler = trainer.task_sampler
    assert sampler.arguments == ({"cue": 6, "stall": 8}, 4, 42, {"cue": 1.0, "stall": 1.0})
    played = []
    run = trainer.flow.run

    def spy(*args, **kwargs):
        played.append(run(*args, **kwargs))
        if len(played) == 2:
            played[-1][0].masked = True
        return played[-1]

    trainer.flow.run = spy
    trainer.train()
    assert [rollout for rollout, _ in sampler.heard] == [0, 1]
    for (rollout, results), trajectories in zip(sampler.heard, played, strict=True):
        assert [(r.env, r.task) for r in results] == sampler.assignments(rollout)
        for group, result in enumerate(results):
            part = [t for t in trajectories if t.group == group and not t.masked]
            assert result.episodes == len(part) == (3 if (rollout, group) == (1, 0) else 4)
            assert {t.task_id for t in part} == {f"task-{result.task}"}
            assert result.reward == pytest.approx(np.mean([t.total_reward for t in part]))
            assert result.success == pytest.approx(np.mean([t.success for t in part]))


def test_a_curriculum_resumes_bit_equal(tmp_path):
    kwargs = {"env": ENVS, "task_sampler": "agent_r1_trainer.curriculum:MediumDifficulty", **RUN}
    whole = make_trainer(tmp_path / "whole", max_steps=16, **kwargs)
    whole.train()
    make_trainer(tmp_path / "cut", max_steps=8, **kwargs).train()
    resumed = make_trainer(tmp_path / "cut", max_steps=16, **kwargs)
    resumed.train(resume_from_checkpoint=True)
    assert [e for e in measured(resumed) if e["step"] > 8] == [e for e in measured(whole) if e["step"] > 8]
    assert all(torch.equal(a, b) for a, b in zip(weights(whole).values(), weights(resumed).values(), strict=True))
    assert resumed.task_sampler.state_dict() == whole.task_sampler.state_dict()
    forgetful = make_trainer(tmp_path / "fresh", max_steps=4, **kwargs).task_sampler
    # There was something to restore (that draws follow from it is another test's).
    assert forgetful.state_dict() != whole.task_sampler.state_dict()


def test_medium_difficulty_prefers_what_is_neither_solved_nor_hopeless():
    sampler = MediumDifficulty({"": 30}, groups=10, seed=0, weights={"": 1.0})
    for rollout in range(8):
        sampler.observe(rollout, [GroupResult("", t, 0.0, (0.0, 0.5, 1.0)[t % 3], 8) for t in range(30)])
    counts = collections.Counter(task % 3 for rollout in range(200) for _, task in sampler.assignments(rollout))
    # One draw of ten from 30 without replacement: a medium task weighs 0.27, another one 0.02.
    assert counts[1] > 0.7 * 2000 and 0 < counts[0] < 0.15 * 2000 and 0 < counts[2] < 0.15 * 2000
    assert all(len({task for _, task in sampler.assignments(rollout)}) == 10 for rollout in range(20))
    other = MediumDifficulty({"": 30}, groups=10, seed=0, weights={"": 1.0})
    other.load_state_dict(sampler.state_dict())
    assert [other.assignments(r) for r in range(5)] == [sampler.assignments(r) for r in range(5)]


def test_medium_difficulty_keeps_shares_and_running_means():
    sampler = MediumDifficulty({"a": 4, "b": 50}, groups=6, seed=1, weights={"a": 2.0, "b": 1.0}, memory=0.75)
    assert collections.Counter(env for env, _ in sampler.assignments(3)) == {"a": 4, "b": 2}
    assert sorted(task for env, task in sampler.assignments(3) if env == "a") == [0, 1, 2, 3]
    for success in (1.0, 0.0, 0.5):
        sampler.observe(0, [GroupResult("b", 7, 0.0, success, 4)])
    assert sampler.state_dict()["success"] == {"a": [], "b": [(7, 0.75 * (0.75 * 1.0) + 0.25 * 0.5)]}
    small = MediumDifficulty({"": 2}, groups=5, seed=0, weights={"": 1.0})
    assert sorted(task for _, task in small.assignments(0)) in ([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match="every environment needs a panel"):
        MediumDifficulty({"a": None}, groups=1, seed=0, weights={"a": 1.0})
    with pytest.raises(ValueError, match="memory must be"):
        MediumDifficulty({"a": 3}, groups=1, seed=0, weights={"a": 1.0}, memory=1.0)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([("", 0)], "gave 1 tasks for rollout 5, which needs 2"),
        ([("", 0), ("x", 0)], "chose the environment 'x'; there are ''"),
        ([("", 0), ("", 3)], "chose task 3 .* whose panel has 3 tasks"),
        ([("", 0), ("", -1)], "chose task -1"),
        ([("", None), ("", 1)], "chose task None"),
        (
            [("", 0), ("", 1.0)],
            "chose task 1.0 .* must be an integer",
        ),
        ([("", 0), ("", "b")], "chose task 'b' .* must be an integer"),
    ],
)
def test_tasks_that_do_not_exist_are_refused(tasks, message):
    with pytest.raises(ValueError, match=message):
        group_assignments(tasks, rollout=5, panels={"": 3}, groups=2, samples=1, seed=0)


def test_a_group_without_a_usable_episode_is_not_reported():
    assert group_results([("", 4)], []) == []


def test_samplers_that_are_none_are_refused(tmp_path):
    for name, message in (
        ("somewhere", "unknown task_sampler 'somewhere'; expected 'module:factory'"),
        ("agent_r1_trainer.nowhere:x", "cannot load"),
        ("agent_r1_trainer.curriculum.medium_difficulty:Missing", "cannot load"),
    ):
        with pytest.raises(ValueError, match=message):
            make_trainer(tmp_path, max_steps=4, task_sampler=name)
    with pytest.raises(TypeError, match="needs assignments, observe, state_dict and load_state_dict, got dict"):
        make_trainer(tmp_path, max_steps=4, task_sampler="builtins:dict")
    sampler = MediumDifficulty({"": 8}, 16, 0, {"": 1.0})
    assert isinstance(sampler, TaskSampler)
    assert make_trainer(tmp_path, max_steps=4, task_sampler=sampler).task_sampler is sampler
    trainer = make_trainer(tmp_path, max_steps=4)
    trainer.args.task_sampler = "agent_r1_trainer.curriculum:MediumDifficulty"
    with pytest.raises(ValueError, match="not both"):
        make_task_sampler(trainer.args, {"": 8}, {"": 1.0}, sampler)
