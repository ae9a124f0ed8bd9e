"""Every shipped recipe resolves, makes a config, and names environments and arguments that exist."""

import functools
import inspect
import json

import agent_r1_wrappers  # noqa: F401  registers the ids
import gymnasium
import pytest
from gymnasium.envs.registration import load_env_creator
from typer.testing import CliRunner

from agent_r1_trainer.algorithms import ALGORITHMS
from agent_r1_trainer.cli import app
from agent_r1_trainer.environments.factory import EnvFactory
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.train.recipes import find_recipe, load_recipe, recipe_names, recipe_summary
from agent_r1_trainer.train.settings import read_settings

NAMES = recipe_names() + recipe_names(bases=True)
TASKS = ("hotpotqa", "alfworld", "webshop", "paper_search")
WITH_RECIPES = ("steppo", "token_ppo", "grpo", "rloo", "reinforce_pp", "gigpo")
OFFICIAL = {"data", "backend", "goals"}  # without these an environment takes its embedded data


def environments(settings):
    """Pairs of id and arguments: training, evaluation, exam; of each environment of a mixture too."""
    for entry in (getattr(settings, "envs", None) or {}).values():
        yield from ((entry.env, kwargs) for kwargs in (entry.kwargs, entry.eval_kwargs) if kwargs is not None)
    if settings.env:
        yield settings.env, settings.training.get("env_kwargs") or {}
        yield settings.eval_env or settings.env, settings.training.get("eval_env_kwargs") or {}
        if settings.exam is not None:
            yield settings.exam.env or settings.env, settings.exam.env_kwargs


@functools.cache
def accepts(env: str, kwargs: str, recipe: str, max_turns: int | None) -> bool:
    """Build the environment; official data, which are not here, are only compared with the constructor's signature."""
    given = json.loads(kwargs)
    known = inspect.signature(load_env_creator(gymnasium.spec(env).entry_point)).parameters
    assert set(given) <= set(known), f"{env} has no argument {set(given) - set(known)}"
    embedded = {name: value for name, value in given.items() if name not in OFFICIAL}
    EnvFactory(env, embedded, recipe, max_turns)().close()  # type: ignore[arg-type]
    return True


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("algorithm", WITH_RECIPES)
def test_there_is_a_recipe_for_every_task_and_algorithm(task, algorithm):
    settings = read_settings(find_recipe(task), algorithm)
    base = load_recipe(find_recipe(task))
    assert settings.algorithm == algorithm and settings.env == base["env"] and settings.model == base["model"]
    for field in ("advantage_estimator", "importance_sampling_level"):
        assert settings.training[field] == ALGORITHMS[algorithm].settings[field]
    assert ("critic" in settings.training) == (algorithm in ("steppo", "token_ppo"))


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_makes_a_config_and_its_environments(name, tmp_path):
    settings = read_settings(find_recipe(name))
    config = StepPOConfig(**{**settings.training, "output_dir": str(tmp_path)})
    assert config.max_steps > 0
    for field in ("max_steps", "save_steps", "eval_steps", "logging_steps"):
        assert getattr(config, field) % config.updates_per_rollout == 0, field
    for env, kwargs in environments(settings):
        assert accepts(env, json.dumps(kwargs, sort_keys=True), config.recipe, config.max_turns)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_says_what_it_is_in_one_line(name):
    assert 20 < len(recipe_summary(name)) <= 120 and recipe_summary(name).endswith(".")


@pytest.mark.parametrize("name", ["demo", "hotpotqa", "webshop"])
def test_an_argument_that_the_environment_does_not_know_fails(name, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(f"extends: {name}\nenv_kwargs: {{splitt: train}}\n", encoding="utf-8")
    settings = read_settings(path)
    with pytest.raises(AssertionError, match="splitt"):
        accepts(settings.env, json.dumps(settings.training["env_kwargs"]), "default", None)


@pytest.mark.parametrize("algorithm", [None, "grpo"])
@pytest.mark.parametrize("name", recipe_names())
def test_a_printed_recipe_is_the_same_run(name, algorithm, tmp_path):
    done = CliRunner().invoke(app, ["recipes", name, *(["--algorithm", algorithm] if algorithm else [])])
    assert done.exit_code == 0
    path = tmp_path / "mine.yaml"
    path.write_text(done.output, encoding="utf-8")
    assert read_settings(path) == read_settings(find_recipe(name), algorithm)
    assert read_settings(path, "rloo") == read_settings(find_recipe(name), "rloo")


def test_a_printed_recipe_takes_another_algorithm_when_its_line_is_changed(tmp_path):
    printed = CliRunner().invoke(app, ["recipes", "webshop", "--algorithm", "grpo"]).output
    assert "#   normalize_std: true" in printed  # what the algorithm sets can be read
    path = tmp_path / "mine.yaml"
    path.write_text(printed.replace("algorithm: grpo", "algorithm: steppo"), encoding="utf-8")
    training = read_settings(path).training
    assert (training["advantage_estimator"], training["critic"]) == ("step_gae", "separate")
    assert training["epsilon"] == 3e-4 and "published" not in printed


def test_recipes_are_listed_and_mistakes_said_in_words(tmp_path):
    lines = CliRunner().invoke(app, ["recipes"]).output.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    for arguments, words in (
        (["webshop_grop"], "did you mean webshop"),
        (["demo", "--algorithm", "gipo"], "did you mean gigpo"),
        ([str(tmp_path / "none.yaml")], "none.yaml"),
    ):
        done = CliRunner().invoke(app, ["recipes", *arguments])
        assert done.exit_code == 2 and words in done.output and "Traceback" not in done.output
    done = CliRunner().invoke(app, ["train", "--config", "webshop_grop"])
    assert done.exit_code == 2 and "did you mean webshop" in done.output
