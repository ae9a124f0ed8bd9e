"""Files of settings: every recipe can be read, every mistake is named."""

from pathlib import Path

import pytest

import agent_r1_trainer
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import ENV_ID, ENV_KWARGS
from agent_r1_trainer.train.settings import PRESETS, ExamSettings, read_settings

RECIPES = sorted((Path(agent_r1_trainer.__file__).parent / "recipes").glob("*.yaml"))


def write(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_recipe_makes_a_config(path, tmp_path):
    settings = read_settings(path)
    args = StepPOConfig(**{**settings.training, "output_dir": str(tmp_path)})
    assert args.max_steps % args.updates_per_rollout == 0
    assert args.save_steps % args.updates_per_rollout == 0


def test_the_demo_trains_where_the_policy_was_cloned_and_tests_elsewhere():
    settings = read_settings(PRESETS["demo"])
    assert settings.model == "tiny" and settings.env == ENV_ID
    for kwargs, split in (
        (settings.training["env_kwargs"], "train"),
        (settings.training["eval_env_kwargs"], "validation"),
        (settings.exam.env_kwargs, "test"),
    ):
        assert kwargs == {"split": split, **ENV_KWARGS}
    assert settings.exam.episodes >= 300 and settings.exam.low_temperature == 0.3


def test_numbers_with_exponents_are_numbers(tmp_path):
    path = write(tmp_path, "model: m\nenv: e\nlearning_rate: 5e-4\ncritic_learning_rate: 1.5E-3\nrun_name: 3e4x\n")
    training = read_settings(path).training
    assert training == {"learning_rate": 5e-4, "critic_learning_rate": 1.5e-3, "run_name": "3e4x"}


def test_defaults(tmp_path):
    settings = read_settings(write(tmp_path, "model: m\nenv: e\nexam: {}\n"))
    assert settings.exam == ExamSettings()
    assert (settings.eval_env, settings.peft, settings.threads, settings.training) == (None, None, None, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: m\nenv: e\nlearning_rte: 1\n", "'learning_rte'; did you mean learning_rate"),
        ("model: m\nenv: e\nexam: {episode: 3}\n", "exam: there is no setting 'episode'; did you mean episodes"),
        ("model: m\nenv: e\nexam: 3\n", "exam must hold settings"),
        ("env: e\n", "model must be given"),
        ("model: 3\nenv: [a]\n", "model and env must be given"),
        ("- a\n", "settings as `name: value` lines"),
        ("", "settings as `name: value` lines"),
        ("model: [\n", "is not YAML"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=".*") as error:
        read_settings(path)
    assert message in str(error.value) and str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        read_settings(tmp_path / "nowhere.yaml")
