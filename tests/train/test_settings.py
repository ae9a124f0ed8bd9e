"""Files of settings: what they hold, and the words for mistakes."""

import pytest

from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import ENV_ID, ENV_KWARGS
from agent_r1_trainer.train.recipes import find_recipe
from agent_r1_trainer.train.settings import ExamSettings, read_settings


def write(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_demo_trains_where_the_policy_was_cloned_and_tests_elsewhere():
    settings = read_settings(find_recipe("demo"))
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


def test_a_mixture_takes_ids_and_entries(tmp_path):
    settings = read_settings(write(tmp_path, "model: m\nenvs: {a: e, b: {env: f, weight: 2, eval_kwargs: {x: 1}}}\n"))
    entries = {"a": MixtureEntry("e"), "b": MixtureEntry("f", weight=2, eval_kwargs={"x": 1})}
    assert settings.env == "" and settings.envs == entries


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: m\nenv: e\nlearning_rte: 1\n", "'learning_rte'; did you mean learning_rate"),
        ("model: m\nenv: e\nexam: {episode: 3}\n", "exam: there is no setting 'episode'; did you mean episodes"),
        ("model: m\nenv: e\nexam: 3\n", "exam must hold settings"),
        ("model: m\nenv: e\nlearning_rate: fast\n", "learning_rate must be a number of at least 0, got 'fast'"),
        ("model: m\nenv: e\nmax_steps: 1.5\n", "max_steps must be a whole number, got 1.5"),
        ("model: m\nenv: e\nmerge_steps: 1\n", "merge_steps must be true or false, got 1"),
        ("model: m\nenv: e\ngamma: true\n", "gamma must be a number from 0 to 1, got True"),
        ("model: m\nenv: e\nrecipe: nativ\n", "recipe must be 'default' or 'tools' or 'native' or 'none', got 'nativ'"),
        ("model: m\nenv: e\nmax_turns: [3]\n", "max_turns must be a whole number of at least 1 or null, got [3]"),
        ("model: m\nenv: e\nenv_kwargs: 3\n", "env_kwargs must be settings of its own or a string or null, got 3"),
        ("model: m\nenv: e\nthreads: many\n", "threads must be a whole number of at least 1 or null, got 'many'"),
        ("model: m\nenv: e\nexam: {episodes: ten}\n", "exam: episodes must be a whole number of at least 1, got 'ten'"),
        ("model: m\nenv: e\nenvs: {a: e}\n", "env and envs exclude each other"),
        ("model: m\nenvs: [e]\n", "envs must be settings of its own, got ['e']"),
        ("model: m\nenvs: {}\n", "envs must hold environments by name"),
        ("model: m\nenvs: {a: {kwargs: {}}}\n", "envs: a must be the id of an environment, or settings"),
        (
            "model: m\nenvs: {a: {env: e, wheight: 1}}\n",
            "envs: a: there is no setting 'wheight'; there are env, kwargs",
        ),
        ("model: m\nenvs: {a: {env: e, weight: -1}}\n", "envs: a: weight must be a number of at least 0, got -1"),
        ("model: m\nenvs: {a: {env: e, weight: .inf}}\n", "envs: a: weight must be a number of at least 0, got inf"),
        ("model: m\nenvs: {a: {env: e, reward_scale: .inf}}\n", "reward_scale must be a number above 0, got inf"),
        ("model: m\nenvs: {a: {env: e, weight: x}}\n", "envs: a: weight must be a number of at least 0, got 'x'"),
        ("model: m\nenvs: {a: {env: e, kwargs: 3}}\n", "envs: a: kwargs must be settings of its own, got 3"),
        ("model: m\nenv: e\nthreads: 0\n", "threads must be a whole number of at least 1 or null, got 0"),
        ("model: m\nenv: e\nexam: {episodes: 0}\n", "exam: episodes must be a whole number of at least 1, got 0"),
        ("model: m\nenv: e\nexam: {low_temperature: -1}\n", "exam: low_temperature must be a number of at least 0"),
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
