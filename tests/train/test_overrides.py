"""Settings on the command line: read as a file would hold them, and no difference where they say the same."""

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from agent_r1_trainer.cli import app
from agent_r1_trainer.train.folder import RunFolder
from agent_r1_trainer.train.overrides import read_overrides
from agent_r1_trainer.train.recipes import find_recipe
from agent_r1_trainer.train.settings import read_settings


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ("--learning_rate 1e-6", {"learning_rate": 1e-6}),
        ("--learning-rate=.5", {"learning_rate": 0.5}),
        ("--max_steps 8 --use_cpu", {"max_steps": 8, "use_cpu": True}),
        ("--merge_steps false", {"merge_steps": False}),
        ("--merge_steps off", {"merge_steps": False}),
        ("--eval_strategy no", {"eval_strategy": "no"}),
        ("--run_name 7", {"run_name": "7"}),
        ("--env_kwargs.split test --env_kwargs.top_k 3", {"env_kwargs": {"split": "test", "top_k": 3}}),
        ('--env_kwargs {"split":"test"} --env_kwargs.a.b null', {"env_kwargs": {"split": "test", "a": {"b": None}}}),
        ("--exam.episodes 20 --exam.env 7", {"exam": {"episodes": 20, "env": "7"}}),
        ("--stop_strings </a> </b>", {"stop_strings": ["</a>", "</b>"]}),
        ("--stop_strings </a>", {"stop_strings": ["</a>"]}),
        ("--stop_token_ids [1,2]", {"stop_token_ids": [1, 2]}),
        ("--stop_token_ids 1 2", {"stop_token_ids": [1, 2]}),
        ("--peft null --max_turns null", {"peft": None, "max_turns": None}),
        ("--envs.web.weight 2", {"envs": {"web": {"weight": 2}}}),
        ("--env_kwargs.reward -1", {"env_kwargs": {"reward": -1}}),
    ],
)
def test_values_are_read_by_the_annotation_of_their_setting(arguments, settings):
    assert read_overrides(arguments.split()) == settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--learning_rte 1", "there is no setting 'learning_rte'; did you mean learning_rate"),
        ("--learning_rate fast", "the command line: learning_rate must be a number of at least 0, got 'fast'"),
        ("--max_steps 1.5", "max_steps must be a whole number, got 1.5"),
        ("--kl_in rewards", "kl_in must be 'loss' or 'reward', got 'rewards'"),
        ("--seed 1 --seed 2", "--seed is given twice"),
        ("stray", "'stray' belongs to no setting"),
        ("--env_kwargs {split", "{split is not JSON"),
        ("--env_kwargs..a 1", "empty part"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=".*") as caught:
        read_overrides(arguments.split())
    assert message in str(caught.value)


def test_overrides_lie_over_the_file_and_the_same_is_no_difference(tmp_path):
    path = find_recipe("demo")
    changed = read_settings(path, "grpo", read_overrides("--env_kwargs.split test --num_generations 4".split()))
    assert changed.training["env_kwargs"] == {"split": "test", "top_k": 2, "max_calls": 1}
    assert (changed.algorithm, changed.training["num_generations"]) == ("grpo", 4)
    same = "--learning_rate 0.0005 --env_kwargs.split train --exam.episodes 400 --max_grad_norm 1 --gamma 1"
    manifests = []
    for overrides in ({}, read_overrides(same.split())):
        manifests.append(dataclasses.asdict(read_settings(path, None, overrides)))
    folder = RunFolder(tmp_path, manifests[0])
    folder.open()
    assert RunFolder(tmp_path, manifests[1]).changed == ()


def test_the_command_takes_them_beside_its_own_options(tmp_path, monkeypatch):
    seen = []

    def note(settings, console):
        seen.append(settings)
        raise ValueError("seen")

    monkeypatch.setattr("agent_r1_trainer.train.run.TrainRun", note)
    arguments = ["--config", "demo", "--learning_rate", "1e-6", "--seed", "3", "--env_kwargs.split", "test"]
    done = CliRunner().invoke(app, ["train", *arguments, "--out", str(tmp_path), "--env_kwargs.reward", "-1e-2"])
    assert done.exit_code == 2 and "seen" in done.output
    training = seen[0].training
    assert (training["learning_rate"], training["seed"], training["output_dir"]) == (1e-6, 3, str(tmp_path))
    assert training["env_kwargs"] == {"split": "test", "top_k": 2, "max_calls": 1, "reward": -0.01}
    done = CliRunner().invoke(app, ["train", "--config", "demo", "--lerning_rate", "1"])
    assert done.exit_code == 2 and "did you mean learning_rate" in done.output
    assert json.dumps(training)
