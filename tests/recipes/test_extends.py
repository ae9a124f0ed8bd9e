"""What a file takes over from the files that it extends, and the words for mistakes in them."""

import pytest

from agent_r1_trainer.train.recipes import SHIPPED, find_recipe, load_recipe, merge_settings
from agent_r1_trainer.train.settings import read_settings


@pytest.fixture
def write(tmp_path):
    def put(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return put


def test_later_files_win_and_lists_merge_in_order(write):
    write("a.yaml", "model: a\nenv: a\nseed: 1\nlam: 0.1\n")
    write("sub/b.yaml", "extends: ../a.yaml\nmodel: b\nlam: 0.2\n")
    write("c.yaml", "lam: 0.3\ngamma: 0.3\n")
    path = write("d.yaml", "extends: [sub/b.yaml, c.yaml]\ngamma: 0.4\n")
    assert load_recipe(path) == {"model": "b", "env": "a", "seed": 1, "lam": 0.3, "gamma": 0.4}


def test_mappings_merge_key_by_key_and_null_takes_a_key_away(write):
    base = {"env_kwargs": {"split": "train", "data": "x", "deep": {"a": 1, "b": 2}}, "peft": {"r": 8}, "list": [1, 2]}
    over = {"env_kwargs": {"data": None, "top_k": None, "deep": {"a": None, "c": 3}}, "peft": None, "list": [3]}
    assert merge_settings(base, over) == {
        "env_kwargs": {"split": "train", "deep": {"b": 2, "c": 3}, "top_k": None},
        "peft": None,
        "list": [3],
    }
    assert base["env_kwargs"]["deep"] == {"a": 1, "b": 2}


def test_a_shipped_recipe_can_be_extended_and_one_file_by_two_ways(write):
    write("left.yaml", "extends: demo\nseed: 1\n")
    write("right.yaml", "extends: demo\nlearning_rate: 1e-3\n")
    values = load_recipe(write("run.yaml", "extends: [left.yaml, right.yaml]\nexam: {episodes: 9}\n"))
    demo = load_recipe(SHIPPED / "demo.yaml")
    assert values == {**demo, "seed": 1, "learning_rate": 1e-3, "exam": {**demo["exam"], "episodes": 9}}


def test_the_algorithm_fills_what_neither_file_nor_parents_set(write):
    write("base.yaml", "model: m\nenv: e\nepsilon: 0.1\n")
    path = write("run.yaml", "extends: base.yaml\nalgorithm: gspo\nnum_generations: 4\n")
    settings = read_settings(path)
    assert settings.algorithm == "gspo"
    assert settings.training["epsilon"] == 0.1 and settings.training["num_generations"] == 4
    assert settings.training["importance_sampling_level"] == "sequence"
    assert "epsilon_high" not in settings.training and "critic" not in settings.training


def test_settings_by_algorithm_stand_between_the_files_and_the_algorithm(write):
    write(
        "base.yaml",
        "model: m\nenv: e\nalgorithm: steppo\nby_algorithm: {grpo: {gamma: 0.9, beta: 0.1}, gspo: {epsilon: 0.1}}\n",
    )
    assert "gamma" not in read_settings(write("a.yaml", "extends: base.yaml\n")).training
    text = "extends: base.yaml\nalgorithm: grpo\ngamma: 0.8\nby_algorithm: {grpo: {beta: null, lam: 0.5}}\n"
    training = read_settings(write("b.yaml", text)).training
    assert (training["gamma"], training["lam"], training["num_generations"]) == (0.8, 0.5, 8)
    assert "beta" not in training and "by_algorithm" not in training
    # Half of a pair goes with its like: 4e-4 was chosen by GSPO beside its own 3e-4.
    training = read_settings(write("a.yaml", "extends: base.yaml\n"), "gspo").training
    assert training["epsilon"] == 0.1 and "epsilon_high" not in training
    alone = read_settings(write("c.yaml", "extends: base.yaml\nby_algorithm: null\n"), "gspo").training
    assert (alone["epsilon"], alone["epsilon_high"]) == (3e-4, 4e-4)


@pytest.mark.parametrize("way", ["file", "option"])
def test_another_algorithm_than_that_of_the_parents_starts_from_its_own_settings(write, way):
    text = "model: m\nenv: e\nalgorithm: steppo\nepsilon: 3e-4\nepsilon_high: 4e-4\ncritic_warmup_steps: 4\nlam: 0.9\n"
    base = write("base.yaml", text)
    child = write("child.yaml", "extends: base.yaml\nalgorithm: rloo\n")
    training = (read_settings(child) if way == "file" else read_settings(base, "rloo")).training
    assert (training["epsilon"], training["epsilon_high"], training["lam"]) == (0.2, None, 0.9)
    assert (training["advantage_estimator"], training["kl_in"]) == ("rloo", "reward")
    assert "critic_warmup_steps" not in training
    # The same algorithm once more changes nothing: what the file says of it stays.
    same = write("same.yaml", "extends: base.yaml\nalgorithm: steppo\n")
    for again in (read_settings(base, "steppo"), read_settings(same)):
        assert again == read_settings(base) and again.training["epsilon"] == 3e-4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: hotpotqa_steppo_cpus\n", "extends: there is no recipe 'hotpotqa_steppo_cpus'; did you mean"),
        ("extends: nowhere.yaml\n", "nowhere.yaml"),
        ("extends: 3\n", "extends must be the name of a recipe or a path"),
        ("extends: [demo, {a: 1}]\n", "extends must be the name of a recipe or a path"),
        ("algorithm: grop\n", "algorithm: there is no algorithm 'grop'; did you mean grpo"),
        ("by_algorithm: {grop: {}}\n", "by_algorithm: there is no algorithm 'grop'; did you mean grpo"),
        ("by_algorithm: {grpo: {gama: 1}}\n", "by_algorithm: grpo: there is no setting 'gama'; did you mean gamma"),
        ("by_algorithm: {grpo: 1}\n", "by_algorithm: grpo must hold settings of its own or null, got 1"),
        ("by_algorithm: grpo\n", "by_algorithm must hold settings by the name of an algorithm, got 'grpo'"),
        ("algorithm: [grpo]\n", "there is no algorithm ['grpo']"),
        ("extends: demo\nlearning_rte: 1\n", "there is no setting 'learning_rte'; did you mean learning_rate"),
        ("extends: demo\nseed: 1\nlam: 0.9\nseed: 2\n", "the key 'seed' stands twice"),
        ("env_kwargs: &a {x: *a}\n", "no plain data: Circular reference"),
        ("env_kwargs: {since: 2020-01-01}\n", "no plain data: Object of type date"),
        ("envs:\n  a: e\n  b: e\n  a: f\n", "the key 'a' stands twice"),
        ("extends: demo\nexam: {episode: 1}\n", "exam: there is no setting 'episode'; did you mean episodes"),
    ],
)
def test_mistakes_name_the_file_and_the_key(write, text, message):
    path = write("run.yaml", text)
    with pytest.raises((ValueError, OSError)) as error:
        read_settings(path)
    assert str(path) in str(error.value) and message in str(error.value)


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_bytes(b"model: \xff\xfe\n")
    with pytest.raises(ValueError, match="run.yaml is not YAML"):
        load_recipe(path)


def test_what_a_merge_key_brings_in_may_be_replaced(write):
    text = "env_kwargs: &base {split: train, top_k: 2}\neval_env_kwargs: {<<: *base, split: test}\n"
    assert load_recipe(write("run.yaml", text))["eval_env_kwargs"] == {"split": "test", "top_k": 2}


def test_null_turns_one_environment_into_several_and_back(write):
    write("one.yaml", "model: m\nenv: e\nenv_kwargs: {split: train}\n")
    several = write("several.yaml", "extends: one.yaml\nenv: null\nenv_kwargs: null\nenvs: {a: e, b: f}\n")
    assert (read_settings(several).env, list(read_settings(several).envs)) == ("", ["a", "b"])
    back = read_settings(write("back.yaml", "extends: several.yaml\nenvs: null\nenv: g\n"))
    assert (back.env, back.envs) == ("g", {})


def test_a_mistake_in_a_parent_names_the_parent(write):
    parent = write("parent.yaml", "epsilonn: 1\n")
    with pytest.raises(ValueError, match="did you mean epsilon") as error:
        read_settings(write("run.yaml", "extends: parent.yaml\nmodel: m\nenv: e\n"))
    assert str(parent) in str(error.value)


def test_circles_are_refused(write):
    write("a.yaml", "extends: sub/b.yaml\n")
    write("sub/b.yaml", "extends: [demo, ../c.yaml]\n")
    path = write("c.yaml", "extends: a.yaml\n")
    with pytest.raises(ValueError, match="c.yaml extends a.yaml extends b.yaml extends c.yaml"):
        load_recipe(path)
    with pytest.raises(ValueError, match="self.yaml extends self.yaml"):
        load_recipe(write("self.yaml", "extends: ./self.yaml\n"))


def test_names_and_paths(write, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write("demo", "model: m\nenv: e\n")
    assert find_recipe("demo") == tmp_path.__class__("demo")  # a file that is there goes before a name
    assert find_recipe("demo", tmp_path) == SHIPPED / "demo.yaml"
    assert find_recipe("published/steppo") == SHIPPED / "published" / "steppo.yaml"
    with pytest.raises(ValueError, match="did you mean webshop with .*--algorithm grpo"):
        find_recipe("webshop-grpo")
