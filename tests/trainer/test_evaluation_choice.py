"""An evaluation on some tasks is one on tasks of every type, the same whatever the seed."""

from __future__ import annotations

import json

from agent_r1_trainer.environments.mixture import MixtureEntry
from tests.helpers.training import CueEnv, make_trainer

KINDS = ("clean", "heat", "look")


def sorted_panel(tasks: int = 30):
    env = CueEnv(tasks)
    env.tasks.ids = tuple(f"{KINDS[i * 3 // tasks]}-{i}" for i in range(tasks))
    env.tasks.task_types = tuple(KINDS[i * 3 // tasks] for i in range(tasks))
    return env


def evaluated(trainer) -> list[str]:
    return trainer._evaluator.task_ids[""]


def test_every_type_is_evaluated_on(tmp_path):
    trainers = [
        make_trainer(tmp_path, eval_env=sorted_panel, eval_episodes=n, seed=seed)
        for n, seed in ((6, 1), (6, 2), (9, 1))
    ]
    ids, other, more = map(evaluated, trainers)
    assert [task.split("-")[0] for task in ids] == [kind for kind in KINDS for _ in range(2)]
    assert ids == other and set(ids) < set(more) and len(more) == 9
    metrics = trainers[0].evaluate()
    assert json.loads((tmp_path / "evaluation_tasks.json").read_text()) == ids
    assert 0 <= metrics["eval_success"] <= 1
    seeds = {a.task: a.seed for a in trainers[0]._evaluator.assignments}
    assert seeds.items() <= {a.task: a.seed for a in trainers[2]._evaluator.assignments}.items()


def test_a_whole_panel_is_played_in_its_order(tmp_path):
    for episodes in (None, 30, 40):
        trainer = make_trainer(tmp_path, eval_env=sorted_panel, eval_episodes=episodes)
        assert [a.task for a in trainer._evaluator.assignments] == list(range(30))


def test_each_environment_of_a_mixture_has_its_choice(tmp_path):
    env = {"a": MixtureEntry(sorted_panel), "b": MixtureEntry(CueEnv)}
    trainer = make_trainer(tmp_path, env=env, eval_env=env, eval_episodes=3)
    trainer.evaluate()
    ids = json.loads((tmp_path / "evaluation_tasks.json").read_text())
    assert [task.split("-")[0] for task in ids["a"]] == list(KINDS) and len(ids["b"]) == 3
