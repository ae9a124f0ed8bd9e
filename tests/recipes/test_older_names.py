"""The names that recipes had, `--preset` among them: the same settings as before, and the new form said once.

`older_names.json` holds what every name came to when there was a file for each, and a hash of what it came to with
every other algorithm.
"""

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

from agent_r1_trainer.algorithms import ALGORITHMS
from agent_r1_trainer.train import train_command
from agent_r1_trainer.train.recipes import SHIPPED, find_recipe, recipe_names
from agent_r1_trainer.train.settings import read_settings

BEFORE = json.loads((Path(__file__).parent / "older_names.json").read_text(encoding="utf-8"))
COMPARED = ("steppo", "token_ppo", "grpo", "rloo", "reinforce_pp", "gigpo")


def resolved(path, algorithm=None):
    return json.loads(json.dumps(dataclasses.asdict(read_settings(path, algorithm))))


def digest(settings):
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


@pytest.mark.parametrize("name", BEFORE["names"])
def test_every_older_name_comes_to_the_same_settings_alone_and_extended(name, tmp_path, caplog):
    wanted = BEFORE["names"][name]
    assert resolved(find_recipe(name)) == wanted
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (name not in recipe_names()) and all(f"the recipe {name} is now " in line for line in said)
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: {name}\nseed: 7\n", encoding="utf-8")
    assert resolved(path) == {**wanted, "training": {**wanted["training"], "seed": 7}}


@pytest.mark.parametrize("name", BEFORE["names"])
def test_every_older_name_with_another_algorithm_does_too(name, tmp_path):
    path = tmp_path / "mine.yaml"
    for algorithm, wanted in BEFORE["with_algorithm"][name].items():
        assert digest(resolved(find_recipe(name), algorithm)) == wanted, algorithm
    path.write_text(f"extends: {name}\nalgorithm: rloo\n", encoding="utf-8")
    assert digest(resolved(path)) == BEFORE["with_algorithm"][name]["rloo"]
    assert set(BEFORE["with_algorithm"][name]) == set(ALGORITHMS)


@pytest.mark.parametrize("task", ["alfworld", "hotpotqa", "paper_search", "webshop"])
@pytest.mark.parametrize("algorithm", COMPARED)
def test_a_task_with_an_algorithm_is_the_older_recipe(task, algorithm, tmp_path, caplog):
    wanted = BEFORE["names"][f"{task}_{algorithm}"]
    assert resolved(find_recipe(task), algorithm) == wanted
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: {task}\nalgorithm: {algorithm}\n", encoding="utf-8")
    assert resolved(path) == wanted
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("webshop_grpo", "webshop with `algorithm: grpo` or --algorithm grpo"),
        ("hotpotqa_rloo_cpu", "demo with `algorithm: rloo` or --algorithm rloo"),
        ("household_cpu", "household"),
        ("tasks/webshop", "webshop"),
    ],
)
def test_the_new_form_is_said_once_even_where_two_files_use_the_older_one(name, now, tmp_path, caplog):
    (tmp_path / "one.yaml").write_text(f"extends: {name}\nmodel: m\nenv: e\n", encoding="utf-8")
    path = tmp_path / "two.yaml"
    path.write_text(f"extends: [one.yaml, {name}]\n", encoding="utf-8")
    read_settings(path)
    assert [record.getMessage() for record in caplog.records] == [f"the recipe {name} is now {now}"]


def test_the_path_of_an_older_recipe_in_the_package_is_its_name():
    assert resolved(SHIPPED / "webshop_grpo.yaml") == BEFORE["names"]["webshop_grpo"]


@pytest.mark.parametrize(("preset", "name"), BEFORE["presets"].items())
def test_a_preset_is_a_recipe_and_its_run_lies_where_it_did(preset, name, tmp_path, monkeypatch, caplog):
    seen = []

    def note(settings, console):
        seen.append(settings)
        raise ValueError("seen")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("agent_r1_trainer.train.run.TrainRun", note)
    assert train_command(config=None, preset=preset, seed=3, out=None) == 2
    assert [record.getMessage() for record in caplog.records] == [f"--preset {preset} is now --config {preset}"]
    assert train_command(config=name, preset=None, seed=3, out=None) == 2
    training = {**BEFORE["names"][name]["training"], "seed": 3}
    assert [run.training for run in seen] == [
        {**training, "output_dir": f"runs/{preset}-3"},
        {**training, "output_dir": f"runs/{name}-3"},
    ]
